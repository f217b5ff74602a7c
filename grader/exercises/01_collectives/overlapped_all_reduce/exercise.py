"""An asynchronous all-reduce with work done between its start and its wait."""

import torch

from grader.exercises.shared.cases import counted, each_rank, ranks, same_shape, subgroup_case, total, xs_of
from grader.judging.exercise import Case, Draw, Exercise, Slip

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
    slips=(
        Slip("parts swapped", "The two results are in the other order: (sum, y).", lambda case, r, right: right[r][::-1]),
        Slip("mean for sum", "The sum is exactly n times too small: you divided by the number of ranks.",
             lambda case, r, right: (right[r][0] / case.group_size(r), right[r][1])),
        Slip("own x returned", "The first result is this rank's own x, not the sum: return the tensor that all_reduce "
                               "worked on, as it is after the wait (a clone made before that holds the old values).",
             lambda case, r, right: (case.inputs[r]["x"], right[r][1])),
        Slip("result converted", "The second result has the numbers that compute() returned, in another dtype: hand on what "
             "it returned as it is.", lambda case, r, right: (right[r][0], right[r][1].float())),
    ),
)
