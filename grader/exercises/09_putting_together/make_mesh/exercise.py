"""A mesh of ranks: for each axis the group of the ranks that differ along it only."""

import math
from collections.abc import Sequence

from grader.exercises.shared.meshes import MESHES, in_words, line_of
from grader.exercises.shared.split_inputs import or_refused
from grader.judging.exercise import Case, Draw, Exercise


def _case(world: int, **sizes: int) -> Case:
    fits = math.prod(sizes.values()) == world
    refused = None if fits else [math.prod(sizes.values()), world]
    return Case(f"{in_words(sizes)}{'' if fits else f' on {world} ranks: refused'}",
                ({"sizes": sizes, "refused": refused},) * world)


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    cases = [_case(6, dp=3, tp=2), _case(8, dp=2, pp=2, tp=2), _case(6, pp=2, dp=1, tp=3), _case(3, dp=2, tp=2),
             _case(3, dp=2), _case(4, dp=2), _case(1, dp=1), _case(6, rows=3, ep=2)]
    return [*cases, _case(8, pp=2, ep=4), _case(4, a=2, b=1, c=1, d=2), _case(4, dp=3)] if grading else cases


def _mesh(case: Case, rank: int) -> dict[str, list[int]]:
    sizes = case.inputs[rank]["sizes"]
    return {axis: line_of(sizes, rank, axis) for axis in sizes}


EXERCISE = Exercise(
    title="A group along each axis",
    parameters=("sizes",),
    make_cases=_cases,
    forbidden=MESHES,
    oracle=or_refused(_mesh),
)
