"""How mesh_gradient_norm must be done, and how it can fail."""

from collections.abc import Sequence
from typing import Any

from grader.evidence.evidence import RETURNED
from grader.exercises.technique.meshes import line_in, only_along
from grader.exercises.technique.training import FEW_DIGITS
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, not_far_more_bytes, results_waited
from grader.judging.exercise import Look, Symptom, Technique
from grader.judging.needs import A_NUMBER_BYTES, each_way, needs
from grader.judging.symptoms import deadlocked, raised, unwaited, wrong_ranks

NUMBER_BYTES = 8
NUMBERS = 4  # along each axis: a few sums, where one is enough


def _sent(look: Look, rank: int) -> float:
    """Two numbers a partner are enough for any way to sum one."""
    return NUMBERS * 2 * NUMBER_BYTES * sum(len(line_in(look, rank, axis)) - 1 for axis in ("tp", "pp"))


def _needed(look: Look, rank: int) -> int:
    return A_NUMBER_BYTES * any(len(line_in(look, rank, axis)) > 1 for axis in ("tp", "pp"))


def _only_gradients(look: Look, rank: int, found: Any, right: Any) -> bool:
    return same(found["norm"], right["norm"], 1e-9)


def _different(look: Look) -> bool:
    """The ranks have different norms."""
    return look.evidence.ending == RETURNED and _differ_in(look, look.working)


def _differ_along(look: Look, axis: str) -> bool:
    return look.evidence.ending == RETURNED and any(_differ_in(look, line) for line in look.case.inputs[0]["lines"][axis])


def _differ_in(look: Look, ranks: Sequence[int]) -> bool:
    return any(not same(look.outputs[rank]["norm"], look.outputs[ranks[0]]["norm"], 1e-9) for rank in ranks)


def _too_large(look: Look, rank: int, found: Any, right: Any) -> bool:
    return bool(found["norm"] > right["norm"])


TECHNIQUE = Technique(
    demands=(
        needs(each_way(_needed)),
        not_far_more_bytes(_sent, id="gradients sent"),
        bytes_sent(_sent, "a few numbers along tp and pp"),
        only_along(("tp", "pp")),
        results_waited(),
    ),
    symptoms=(
        unwaited(),
        Symptom("gradients changed", wrong_ranks(_only_gradients)),
        raised("NoneType", "no tied weight"),
        deadlocked("", "ranks differ"),
    ),
    fallbacks=(
        FEW_DIGITS,
        Symptom("pieces not summed", lambda look: _differ_along(look, "tp"), refuted=lambda look: _differ_along(look, "dp")),
        Symptom("norms differ", _different),
        Symptom("norms added", wrong_ranks(_too_large), weak=True),
    ),
)
