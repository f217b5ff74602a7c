"""Attention over a sequence in shards, by swapping the cut: whole sequence, own heads, and back (Ulysses)."""

from collections.abc import Sequence

import torch

from grader.exercises.shared.cases import each_rank, group_case
from grader.exercises.shared.long_attention import TOLERANCE, inputs_of, named, whole_attention
from grader.judging.exercise import Case, Draw, Exercise


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(1, 3, 4, 3), (2, 4, 3, 5), (4, 4, 5, 3), (2, 2, 5, 4, torch.float32), (2, 2, 3, 4, torch.bfloat16)]
    sizes += [(3, 6, 2, 3), (4, 8, draw.integer(1, 4), 3)] if grading else []
    cases = [Case(named(*size), tuple(inputs_of(draw, *size))) for size in sizes]
    for own in cases[1].inputs:  # the same number added to all scores changes nothing, however small it makes them
        own["q"][..., 0], own["k"][..., 0] = -300.0, 300.0
    too_few = tuple(inputs | {"sizes": [3, 2]} for inputs in inputs_of(draw, 2, 3, 4, 3))
    return [*cases, group_case(lambda n: inputs_of(draw, n, 6, 3, 3)), Case("3 heads on 2 ranks", too_few)]


EXERCISE = Exercise(
    title="Whole sequence, own heads, and back",
    parameters=("q_BHPK", "k_BHPK", "v_BHPK", "group"),
    make_cases=_cases,
    oracle=each_rank(whole_attention),
    tolerance=TOLERANCE,
)
