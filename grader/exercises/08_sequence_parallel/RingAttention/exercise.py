"""Causal attention over a sequence in shards: keys and values pass round the ring, all ranks do the same work."""

from collections.abc import Sequence

import torch

from grader.evidence.case import WEIGHED
from grader.exercises.shared.cases import each_rank, group_case
from grader.exercises.shared.long_attention import TOLERANCE, inputs_of, named, whole_attention
from grader.judging.exercise import Case, Draw, Exercise
from utils.models.attention import cut_zigzag, join_zigzag


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(1, 2, 6, 3), (2, 3, 4, 5), (4, 2, 6, 5), (2, 1, 6, 3, torch.float32)]
    sizes += [(3, 1, 2 * draw.integer(2, 4), 4), (3, 2, 10, 3)] if grading else []
    cases = [Case(named(*size), tuple(inputs_of(draw, *size))) for size in sizes]
    odd = tuple(inputs | {"sizes": [5]} for inputs in inputs_of(draw, 2, 1, 5, 3))
    cases += [group_case(lambda n: inputs_of(draw, n, 2, 4, 3)), Case("an odd number of rows", odd)]
    alone = tuple(inputs | {"sizes": [3]} for inputs in inputs_of(draw, 1, 1, 3, 3))
    cases.append(Case("an odd number of rows, alone", alone))
    if grading:  # so many ranks that the others' keys are more than honest copies of one's own
        cases.append(Case("4 ranks, weighed", tuple(own | {WEIGHED: True} for own in inputs_of(draw, 4, 96, 4, 1024))))
    return cases


EXERCISE = Exercise(
    title="Ring attention, with the same work for all",
    parameters=("q_BHPK", "k_BHPK", "v_BHPK", "group"),
    make_cases=_cases,
    trains=True,
    measured=True,
    forbidden=("torch.distributed.tensor",),
    oracle=each_rank(lambda case, rank: whole_attention(case, rank, cut_zigzag, join_zigzag)),
    tolerance=TOLERANCE,
    points={"values": 4, "technique": 4},
)
