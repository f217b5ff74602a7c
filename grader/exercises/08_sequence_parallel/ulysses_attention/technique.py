"""How ulysses_attention must be done, and how it can fail."""

from grader.exercises.technique.sequences import first_wrong_is, not_refused
from grader.judging.demands import bytes_sent, not_far_more_bytes, only_calls, results_waited, tensor_bytes
from grader.judging.exercise import Look, Symptom, Technique
from grader.judging.general import IN_GROUPS_ONLY
from grader.judging.needs import needs
from grader.judging.symptoms import group_ignored, unwaited
from utils.costs.formulas import bytes_sent_per_rank

SWAPS = 4  # q, k, v there, o back


def _sent(look: Look, rank: int) -> float:
    """Each swap of (n−1)/n of a shard, forward and backward."""
    return 2 * SWAPS * bytes_sent_per_rank("all_to_all", tensor_bytes(look, rank, "q"), look.case.group_size(rank))


def _needed(look: Look, rank: int) -> list[tuple[str, float]]:
    return [("all_to_all", 2 * sum(tensor_bytes(look, rank, name) for name in ("q", "k", "v", "q")))]


TECHNIQUE = Technique(
    demands=(
        needs(_needed),
        only_calls("all_to_all"),
        not_far_more_bytes(_sent),
        bytes_sent(_sent, "four swaps each way, (n−1)/n of a shard each"),
        results_waited(),
    ),
    symptoms=(group_ignored(), unwaited()),
    fallbacks=(
        IN_GROUPS_ONLY,
        Symptom("wrong output", first_wrong_is("o")),
        Symptom("gradients stay", first_wrong_is("dq", "dk", "dv")),
        not_refused(),
    ),
)
