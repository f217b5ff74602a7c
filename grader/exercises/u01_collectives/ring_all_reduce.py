"""Ring all-reduce: reduce-scatter, then all-gather; 2(n−1)/n·M bytes a rank."""

from __future__ import annotations

from grader.demands import all_waited, bytes_sent, group_size, only_point_to_point, ring_neighbours, tensor_bytes
from grader.exercise import Exercise
from grader.exercises.u01_collectives.inputs import one_tensor_cases, total
from grader.symptoms import scaled, unchanged
from utils.costs import bytes_sent_per_rank

EXERCISE = Exercise(
    id="ring_all_reduce",
    unit="01_collectives",
    title="Ring all-reduce",
    parameters=("x", "group"),
    make_cases=lambda draw, grading: one_tensor_cases(draw, grading, lambda n, k: (n * k,)),
    oracle=lambda case: [case.members(r) and total(case.peers_inputs(r, "x")) for r in range(case.world_size)],
    demands=(
        only_point_to_point(),
        bytes_sent(lambda look, r: bytes_sent_per_rank("all_reduce", tensor_bytes(look, r), group_size(look, r)),
                   "at most 2(n−1)/n·M bytes",
                   "The sum is right, but whole tensors travel: a ring passes one chunk of M/n a step, n−1 steps to "
                   "reduce-scatter and n−1 to all-gather."),
        ring_neighbours(),
        all_waited(),
    ),
    symptoms=(
        scaled("mean for sum", lambda look, r: 1 / group_size(look, r),
               "Every value is exactly n times too small: all-reduce sums, and you divided by the number of ranks."),
        unchanged("Each rank still holds its own input: nothing that was received was added."),
    ),
)
