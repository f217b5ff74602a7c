"""How pass_right must be done, and how it can fail."""

from dataclasses import replace

from grader.exercises.technique.collectives import EVERYONE_WAITS, INPUT_OVERWRITTEN, calls_made, message_to_itself
from grader.judging.demands import messages_at_most, only_calls, results_waited, ring_neighbours, sends_waited, tensor_bytes
from grader.judging.exercise import Symptom, Technique
from grader.judging.needs import needs
from grader.judging.symptoms import forgotten_send, group_ignored, no_such_rank, unwaited, wrong_ranks
from utils.trace.calls import POINT_TO_POINT

TECHNIQUE = Technique(
    demands=(
        only_calls(*sorted(POINT_TO_POINT, reverse=True)),
        ring_neighbours(),
        messages_at_most(calls_made, "one message a rank"),
        needs(lambda look, r: [("send", calls_made(look, r) * tensor_bytes(look, r)),
                               ("recv", calls_made(look, r) * look.right[r].nbytes)]),
        results_waited(),
        sends_waited(),
    ),
    symptoms=(
        forgotten_send(),
        EVERYONE_WAITS,
        replace(message_to_itself(), id="no neighbour"),
        INPUT_OVERWRITTEN,
        Symptom("sender returned", wrong_ranks(lambda _, rank, found, right: isinstance(found, int))),
        unwaited(),
        group_ignored(),
        no_such_rank(),
    ),
)
