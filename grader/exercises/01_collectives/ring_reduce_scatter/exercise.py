"""Ring reduce-scatter: n−1 steps, one chunk a step; (n−1)/n·M bytes a rank."""

import torch

from grader.exercises.shared.cases import each_rank, one_tensor_cases, total, xs_of
from grader.judging.exercise import Case, Draw, Exercise


def _cases(draw: Draw, grading: bool) -> list[Case]:
    """Two ranks have 16-bit numbers, whose sums are exact, too, and three have whole ones."""
    cases, others = one_tensor_cases(draw, grading, lambda n, k: (n, k)), {2: torch.float16, 3: torch.int32}
    return [_in(others[case.world_size], case) if case.world_size in others and "float64" not in case.name else case
            for case in cases]


def _in(dtype: torch.dtype, case: Case) -> Case:
    name = f"{case.name}, {str(dtype).removeprefix('torch.')}"
    return Case(name, tuple({"x": inputs["x"].to(dtype)} for inputs in case.inputs))


EXERCISE = Exercise(
    title="Ring reduce-scatter",
    parameters=("x_NC", "group"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: total(xs_of(case, r))[case.group_rank(r)]),
)
