"""How gather must be done, and how it can fail."""

from grader.exercises.technique import collectives
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, tensor_bytes
from grader.judging.exercise import Look, Symptom
from grader.judging.needs import needs
from grader.judging.symptoms import deadlocked, every_rank, wrong_ranks

ROUNDED = 1e-2  # to 16 bits


def _needed(look: Look, rank: int) -> list[tuple[str, float]]:
    others = look.case.group_size(rank) - 1
    return [("recv", others * tensor_bytes(look, rank)) if collectives.is_root(look, rank) else
            ("send", tensor_bytes(look, rank))]


TECHNIQUE = collectives.from_messages(
    needs(_needed),
    bytes_sent(lambda look, r: 0 if collectives.is_root(look, r) else tensor_bytes(look, r),
               "each rank sends its row to the root, the root sends nothing",
               "The root has all rows, but more than that travelled: each other rank sends its own C elements once, "
               "and the root sends nothing.", id="more than the rows"),
    symptoms=(
        collectives.message_to_itself(
            "The root sends to itself, and such a message never arrives: it copies its own row into the result without any "
            "message."),
        deadlocked("send without receive", "Some ranks send a row that the root never receives: it must receive from "
                                           "every other rank of the group, however many there are.",
                   id="not received from all"),
    ),
    fallbacks=(
        Symptom("rows lost", "The root has its own row and no other: what arrives was written into something else than the "
                "result, such as a copy of its row (clone, or a list as index). Receive into out_NC[i] itself.",
                wrong_ranks(lambda look, r, *pair: len(pair[1]) > 1 and collectives.wrong_rows(*pair) == [
                    peer for peer in range(len(pair[1])) if peer != look.case.inputs[r]["root"]])),
        collectives.RESULT_EVERYWHERE,
        Symptom("digits lost", "All rows are there, but rounded: the result was made in another dtype than x_C has. Make it "
                "from x_C, with new_empty or torch.empty_like.",
                every_rank(lambda look, r, found, expected: same(found, expected, ROUNDED))),
        Symptom("root's row missing", "The other ranks' rows are right, the root's own is not: nobody sends it, so the "
                                      "root copies its x_C into row root itself.",
                wrong_ranks(lambda look, r, *pair: collectives.wrong_rows(*pair) == [look.case.inputs[r]["root"]])),
        Symptom("rows out of order", "All rows are there, but not in the order of the ranks: row i comes from rank i, "
                                     "whoever is the root and in whatever order the rows arrive.",
                wrong_ranks(collectives.in_other_order)),
    ),
)
