"""How scatter must be done, and how it can fail."""

from grader.exercises.technique.collectives import NOT_SENT_TO_ALL, from_messages, is_root, message_to_itself, sends_to_root
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, tensor_bytes
from grader.judging.exercise import Look, Symptom
from grader.judging.needs import needs
from grader.judging.symptoms import wrong_ranks


def _root_only_receives(look: Look) -> bool:
    return bool(goals := sends_to_root(look)) and all(goals)


def _any_row(look: Look, rank: int, found, expected) -> bool:
    root_x_NC = look.case.peers_inputs(rank, "x")[look.case.inputs[rank]["root"]]
    return any(same(found, row_C) for row_C in root_x_NC)


def _needed(look: Look, rank: int) -> list[tuple[str, float]]:
    row_bytes = look.right[rank].nbytes
    return [("send", row_bytes * (look.case.group_size(rank) - 1)) if is_root(look, rank) else ("recv", row_bytes)]


TECHNIQUE = from_messages(
    needs(_needed),
    bytes_sent(lambda look, r: tensor_bytes(look, r) * (1 - 1 / look.case.group_size(r)) * is_root(look, r),
               "the root sends n−1 rows, the others nothing",
               "Every rank has its row, but more than that travelled: the root sends rank i only row i, C elements, "
               "and nobody else sends.", id="more than the rows"),
    symptoms=(
        message_to_itself("The root sends to itself, and such a message never arrives: it takes its own row from x_NC "
                          "without any message."),
        NOT_SENT_TO_ALL,
        Symptom("gather instead", "The rows travel to the root: that is a gather. In a scatter the root sends and the "
                                  "others receive.", _root_only_receives),
    ),
    fallbacks=(
        Symptom("row of another rank", "Rows arrived at the wrong ranks: row i belongs to rank i, whoever is the root "
                                       "and in whatever order the rows are sent.", wrong_ranks(_any_row)),
    ),
)
