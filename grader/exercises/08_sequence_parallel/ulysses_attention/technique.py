"""How ulysses_attention must be done, and how it can fail."""

from typing import Any

from grader.exercises.technique.sequences import first_wrong_is, not_refused
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, not_far_more_bytes, only_calls, results_waited, tensor_bytes
from grader.judging.exercise import Look, Symptom, Technique
from grader.judging.general import IN_GROUPS_ONLY
from grader.judging.needs import needs
from grader.judging.symptoms import group_ignored, unwaited, wrong_ranks
from utils.costs.formulas import bytes_sent_per_rank

SWAPS = 4  # q, k, v there, o back


def _sent(look: Look, rank: int) -> float:
    """Each swap of (n−1)/n of a shard, forward and backward."""
    return 2 * SWAPS * bytes_sent_per_rank("all_to_all", tensor_bytes(look, rank, "q"), look.case.group_size(rank))


def _needed(look: Look, rank: int) -> list[tuple[str, float]]:
    return [("all_to_all", 2 * sum(tensor_bytes(look, rank, name) for name in ("q", "k", "v", "q")))]


def _heads_mixed(look: Look, rank: int, found: Any, expected: Any) -> bool:
    """The same heads, in another order."""
    return not same(found["o"], expected["o"], 1e-5) and all(
        any(same(head, right, 1e-5) for right in expected["o"].unbind(1)) for head in found["o"].unbind(1))


TECHNIQUE = Technique(
    demands=(
        needs(_needed),
        only_calls("all_to_all", hint="Only all-to-alls: an all-gather would bring the whole of K and V, all heads, to "
                                      "every rank."),
        not_far_more_bytes(_sent, "Far more was sent than four swaps each way."),
        bytes_sent(_sent, "four swaps each way, (n−1)/n of a shard each",
                   "Right, but more was sent than one swap each for q, k, v and o, forward and backward."),
        results_waited(),
    ),
    symptoms=(
        group_ignored("The ranks of other groups are touched: pass group to every swap and to dist.get_world_size."),
        unwaited(),
    ),
    fallbacks=(
        IN_GROUPS_ONLY,
        Symptom("heads mixed", "The heads come back in another order than they went.", wrong_ranks(_heads_mixed)),
        Symptom("wrong output", "o is wrong: cut heads, join the sequence; causal attention; cut the sequence, join heads.",
                first_wrong_is("o")),
        Symptom("gradients stay", "o is right, the gradients are not: they must travel back through the same swaps. Use an "
                                  "autograd function for each, such as SwapShards.", first_wrong_is("dq", "dk", "dv")),
        not_refused("The ranks must divide the heads: raise a ValueError that names both numbers, before anything is sent."),
    ),
)
