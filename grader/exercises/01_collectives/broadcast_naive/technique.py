"""How broadcast_naive must be done, and how it can fail."""

from grader.exercises.technique.collectives import FROM_ROOT, from_messages, is_root, message_to_itself
from grader.judging.demands import bytes_sent, tensor_bytes

TECHNIQUE = from_messages(
    FROM_ROOT,
    bytes_sent(lambda look, r: (look.case.group_size(r) - 1) * tensor_bytes(look, r) * is_root(look, r),
               "the root sends (n−1)·M bytes, the others nothing", id="others send too"),
    symptoms=(
        message_to_itself(),
    ),
)
