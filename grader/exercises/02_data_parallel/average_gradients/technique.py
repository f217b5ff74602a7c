"""How average_gradients must be done, and how it can fail."""

import torch
from torch import Tensor

from grader.calling.training import GRADIENT_REPLACED
from grader.exercises.technique.rank_by_rank import on_each_rank, the_mark
from grader.exercises.technique.training import FEW_DIGITS, OWN_DTYPES, dtypes_of, gradient_bytes_once, gradients_needed
from grader.judging.compare import same
from grader.judging.demands import only_calls, results_waited
from grader.judging.exercise import Demand, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, raised, unwaited, wrong_ranks


def _many_calls(look: Look, rank: int) -> str:
    count, allowed = len(look.evidence.trace.of(rank, "all_reduce")), len(dtypes_of(look, rank))
    too_many = look.case.group_size(rank) > 1 and count > allowed
    return f"rank {rank} called all_reduce {count} times, allowed {allowed}" if too_many else ""


def _numbers(gradients: dict[str, Tensor | None]) -> Tensor:
    """All numbers of all gradients, by size."""
    return torch.cat([g.double().flatten() for g in gradients.values() if g is not None]).sort().values


def _all_there(look: Look, rank: int, found: dict[str, Tensor | None], right: dict[str, Tensor | None]) -> bool:
    """Every number is one of the mean's, if of another place."""
    numbers, theirs = _numbers(found), _numbers(right)
    above = torch.searchsorted(theirs, numbers).clamp(max=len(theirs) - 1)
    nearest = torch.minimum((theirs[above] - numbers).abs(), (theirs[(above - 1).clamp(min=0)] - numbers).abs())
    return bool((nearest <= 1e-5 * numbers.abs()).all())


def _one_dtype_right(look: Look, rank: int, found: dict[str, Tensor | None], right: dict[str, Tensor | None]) -> bool:
    """Of two dtypes the gradients of one are right."""
    there = [name for name, gradient in right.items() if gradient is not None]
    wrong = {name for name in there if not same(found[name], right[name])}
    return bool(wrong) and any(wrong.isdisjoint(name for name in there if right[name].dtype == dtype)
                               for dtype in {right[name].dtype for name in there})


def _replaced(look: Look, rank: int) -> str:
    names = the_mark(look, rank, GRADIENT_REPLACED)["names"]
    return f"rank {rank}: of {names[0]}" if names else ""


TECHNIQUE = Technique(
    demands=(
        gradients_needed(),
        only_calls("all_reduce"),
        OWN_DTYPES,
        gradient_bytes_once(),
        Demand("a call each", "one all-reduce for each dtype", on_each_rank(_many_calls), forbids=True),
        results_waited(),
        Demand(GRADIENT_REPLACED, "the gradients stay the same tensors", on_each_rank(_replaced)),
    ),
    symptoms=(
        group_ignored(),
        unwaited(),
        raised("NoneType", "no gradient"),
    ),
    fallbacks=(
        FEW_DIGITS,
        Symptom("dtype left", wrong_ranks(_one_dtype_right)),
        Symptom("pieces misplaced", wrong_ranks(_all_there)),
    ),
)
