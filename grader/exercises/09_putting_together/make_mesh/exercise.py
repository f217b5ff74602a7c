"""A mesh of ranks: for each axis the group of the ranks that differ along it only."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from grader.exercises.shared.meshes import MESHES, in_words, line_of
from grader.exercises.shared.split_inputs import divides, or_refused
from grader.judging.exercise import Case, Draw, Exercise, Slip

Sizes = dict[str, int]


def _case(world: int, **sizes: int) -> Case:
    fits = math.prod(sizes.values()) == world
    refused = None if fits else [math.prod(sizes.values()), world]
    return Case(f"{in_words(sizes)}{'' if fits else f' on {world} ranks: refused'}",
                ({"sizes": sizes, "refused": refused},) * world)


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    cases = [_case(6, dp=3, tp=2), _case(8, dp=2, pp=2, tp=2), _case(6, pp=2, dp=1, tp=3), _case(3, dp=2, tp=2),
             _case(3, dp=2), _case(4, dp=2), _case(1, dp=1), _case(6, rows=3, ep=2)]
    return [*cases, _case(8, pp=2, ep=4), _case(4, a=2, b=1, c=1, d=2), _case(4, dp=3)] if grading else cases


def _line(sizes: Sizes, rank: int, axis: str) -> list[int]:
    return line_of(sizes, rank, axis)


def _mesh(case: Case, rank: int, line: Callable[[Sizes, int, str], list[int]] = _line) -> dict[str, Any]:
    sizes = case.inputs[rank]["sizes"]
    return {axis: line(sizes, rank, axis) for axis in sizes}


# ── slips ──


def _first_fastest(sizes: Sizes, rank: int, axis: str) -> list[int]:
    return line_of(dict(reversed(sizes.items())), rank, axis)


def _names_reversed(sizes: Sizes, rank: int, axis: str) -> list[int]:
    """The groups are those of the axis that is as far from the other end."""
    axes = list(sizes)
    return line_of(sizes, rank, axes[-1 - axes.index(axis)])


def _neighbours(sizes: Sizes, rank: int, axis: str) -> list[int]:
    first = rank // sizes[axis] * sizes[axis]
    return list(range(first, first + sizes[axis]))


def _far_apart(sizes: Sizes, rank: int, axis: str) -> list[int]:
    world = math.prod(sizes.values())
    return list(range(rank % (world // sizes[axis]), world, world // sizes[axis]))


def _every(sizes: Sizes, rank: int, axis: str) -> list[int]:
    return list(range(math.prod(sizes.values())))


def _others(sizes: Sizes, rank: int, axis: str) -> list[int]:
    """The ranks that stand at the same place along the axis."""
    outside = {other for other in _every(sizes, rank, axis) for of_axis in [line_of(sizes, other, axis)]
               if of_axis.index(other) == line_of(sizes, rank, axis).index(rank)}
    return sorted(outside)


def _slip(id: str, line: Callable[[Sizes, int, str], list[int]], hint: str) -> Slip:
    return Slip(id, hint, lambda case, rank, right: _mesh(case, rank, line), shows=divides)


EXERCISE = Exercise(
    title="A group along each axis",
    parameters=("sizes",),
    make_cases=_cases,
    forbidden=MESHES,
    oracle=or_refused(partial(_mesh)),
    slips=(
        _slip("first axis fastest", _first_fastest, "The ranks are numbered the other way round: neighbours in number "
              "should differ along the *last* axis, and the first one has the longest strides."),
        _slip("names reversed", _names_reversed, "The groups are right, but they stand under the wrong names: the first "
              "axis in sizes is the outermost, whose ranks are farthest apart."),
        _slip("neighbours in every axis", _neighbours, "Every axis groups ranks that follow each other. That is so along "
              "the last axis only: along another one, two neighbours are as many numbers apart as all later axes together "
              "have ranks."),
        _slip("outermost in every axis", _far_apart, "Every axis is grouped as if it were the outermost. The distance "
              "between neighbours is the product of the sizes of the axes that come *after* it."),
        _slip("one group of all", _every, "Every axis has the whole world as its group: a group along one axis has as many "
              "ranks as the axis is long."),
        _slip("the other axes", _others, "A group holds the ranks that stand at the *same* place along its axis. It should "
              "be the other way round: they differ along this axis, and agree in all others."),
    ),
)
