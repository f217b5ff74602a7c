"""An asynchronous all-reduce with work done between its start and its wait."""

import torch

from grader.exercises.shared.cases import counted, each_rank, ranks, same_shape, subgroup_case, total, xs_of
from grader.judging.exercise import Case, Draw, Exercise

STEPS = 20_000  # some milliseconds of compute()
DTYPES = {2: torch.int64, 3: torch.float64}  # of what compute() returns, on so many ranks


def _cases(draw: Draw, grading: bool) -> list[Case]:
    sizes = [(1, 3), (2, 2), (3, draw.integer(1, 4)), (4, 1 << 15)]
    if grading:
        sizes.append((5, 2))
    cases = [same_shape(f"{ranks(n)}, {counted(k, 'element')}", draw, n, (k,)) for n, k in sizes]
    cases.append(subgroup_case(draw, lambda n: (2,)))
    return [_with_work(draw, case, DTYPES.get(case.world_size, torch.float32)) for case in cases]


def _with_work(draw: Draw, case: Case, dtype: torch.dtype) -> Case:
    ys = draw.tensors(case.world_size, 3, dtype=dtype)
    return Case(case.name, tuple({**inputs, "y": y, "steps": STEPS} for inputs, y in zip(case.inputs, ys, strict=True)),
                case.groups)


EXERCISE = Exercise(
    title="Compute while an all-reduce is under way",
    parameters=("x", "compute", "group"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: (total(xs_of(case, r)), case.inputs[r]["y"] * 2)),
    late_s=0.5,  # so that the others have begun to compute meanwhile, on a busy machine too
)
