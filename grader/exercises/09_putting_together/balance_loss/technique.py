"""How balance_loss must be done, and how it can fail."""

from typing import Any

from grader.calling.sequences import BACKWARD
from grader.exercises.technique.sequences import first_wrong_is
from grader.exercises.technique.splitting import calls_are, other_dtype
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, only_calls, results_waited
from grader.judging.exercise import Look, Symptom, Technique
from grader.judging.general import IN_GROUPS_ONLY
from grader.judging.needs import A_NUMBER_BYTES, needs
from grader.judging.symptoms import every_rank, group_ignored, unwaited, wrong_ranks
from utils.costs.formulas import bytes_sent_per_rank

LARGEST_NUMBER_BYTES = 8


def _limit(look: Look, rank: int) -> float:
    """2E + 1 numbers of 8 bytes."""
    n_experts = look.case.inputs[rank]["probabilities"].shape[1]
    return bytes_sent_per_rank("all_reduce", LARGEST_NUMBER_BYTES * (2 * n_experts + 1), look.case.group_size(rank))


def _counts(look: Look, rank: int) -> list[tuple[str, float]]:
    """How many tokens each expert got."""
    return [("all_reduce", A_NUMBER_BYTES * look.case.inputs[rank]["probabilities"].shape[1])]


def _no_gradient(look: Look, rank: int, found: Any, right: Any) -> bool:
    return found["dprobabilities"] is None and getattr(found["loss"], "shape", None) == ()


def _tokens_reduced(look: Look) -> bool:
    shapes = [tuple(look.case.inputs[rank]["probabilities"].shape) for rank in look.working]
    return any(call.shape in shapes for call in look.evidence.trace.of(op="all_reduce"))


def _other_losses(look: Look) -> bool:
    """The ranks of a group have different losses."""
    return any(not look.same(look.outputs[rank]["loss"], look.outputs[look.case.members(rank)[0]]["loss"])
               for rank in look.working)


def _fewer_digits(look: Look, rank: int, found: Any, right: Any) -> bool:
    return same(found, right, 1e-5)


TECHNIQUE = Technique(
    demands=(
        needs(_counts),
        only_calls("all_reduce"),
        calls_are(BACKWARD, {}, "communicates in backward"),
        bytes_sent(_limit, "all-reduces of 2E + 1 numbers in all"),
        results_waited(),
    ),
    symptoms=(
        group_ignored(),
        unwaited(),
        Symptom("no gradient", wrong_ranks(_no_gradient)),
        Symptom("tokens reduced", _tokens_reduced),
        other_dtype(),
    ),
    fallbacks=(
        IN_GROUPS_ONLY,
        Symptom("losses differ", lambda look: first_wrong_is("loss")(look) and _other_losses(look)),
        Symptom("other dtype", every_rank(_fewer_digits)),
        Symptom("wrong loss", first_wrong_is("loss")),
        Symptom("wrong gradient", first_wrong_is("dprobabilities")),
    ),
)
