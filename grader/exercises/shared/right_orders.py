"""The schedules that students generate, and what the exercises have in common that ask for one."""

from collections.abc import Callable, Sequence
from typing import Any

from grader.calling.schedules_run import call_generator
from grader.judging.exercise import VALUES, Case, Draw, Exercise
from utils.schedules.schedule import Schedule, Step

Make = Callable[..., Schedule]  # from the numbers that an exercise gives, by their names


def schedule_exercise(title: str, sizes: Callable[[Draw], list[Sequence[int]]], for_grading: list[Sequence[int]],
                      reading: Callable[[Case, Any], Any], right: Make,
                      parameters: tuple[str, ...] = ("n_stages", "n_micro"), points: float = 4) -> Exercise:
    """An exercise that makes a schedule from a few numbers; a size is one of each, in the order of the parameters."""

    def case(size: Sequence[int]) -> Case:
        return Case(", ".join(map(_counted, parameters, size)), (dict(zip(parameters, size, strict=True)),))

    return Exercise(
        title=title,
        parameters=parameters,
        make_cases=lambda draw, grading: [case(size) for size in sizes(draw) + (for_grading if grading else [])],
        oracle=lambda case: [reading(case, call_generator(right, case.inputs[0], None))],
        forbidden=("torch.distributed.pipelining",),
        tolerance=1e-9,
        points={VALUES: points},
    )


def _counted(parameter: str, number: int) -> str:
    """"1 stage", "2 stages"."""
    what = {"n_stages": "stages", "n_micro": "micro-batches", "n_ranks": "ranks", "n_chunks": "chunks"}[parameter]
    return f"{number} {what.removesuffix('s') if number == 1 and parameter != 'n_micro' else what}"


def gpipe(n_stages: int, n_micro: int) -> Schedule:
    return [[Step(kind, micro, stage) for kind in "FB" for micro in range(n_micro)] for stage in range(n_stages)]


def warm_up(n_stages: int, n_micro: int, stage: int) -> int:
    """How many forwards come first in 1F1B."""
    return min(n_stages - 1 - stage, n_micro)


def in_turn(n_stages: int, n_micro: int, first: Callable[[int, int, int], int]) -> Schedule:
    """first(n_stages, n_micro, stage) forwards, one forward and one backward in turn, then the other backwards."""
    rows = []
    for stage in range(n_stages):
        n_first = first(n_stages, n_micro, stage)
        steady = [Step(kind, micro, stage) for done in range(n_micro - n_first)
                  for kind, micro in (("F", n_first + done), ("B", done))]
        rows.append([Step("F", micro, stage) for micro in range(n_first)] + steady
                    + [Step("B", micro, stage) for micro in range(max(0, n_micro - n_first), n_micro)])
    return rows


def one_f_one_b(n_stages: int, n_micro: int) -> Schedule:
    return in_turn(n_stages, n_micro, warm_up)


def interleaved(n_ranks: int, n_chunks: int, n_micro: int) -> Schedule:
    """Narayanan et al., arXiv 2104.04473, section 2.2: groups of n_ranks micro-batches, chunk after chunk.

    Raises: ValueError that names both numbers where n_ranks does not divide n_micro.
    """
    if n_micro % n_ranks:
        raise ValueError(f"{n_micro} micro-batches cannot be taken in groups of {n_ranks}")
    order = [(chunk, first + place) for first in range(0, n_micro, n_ranks) for chunk in range(n_chunks)
             for place in range(n_ranks)]
    rows = []
    for rank in range(n_ranks):
        forward = [Step("F", micro, chunk * n_ranks + rank) for chunk, micro in order]
        backward = [Step("B", micro, (n_chunks - 1 - chunk) * n_ranks + rank) for chunk, micro in order]
        first = min(2 * (n_ranks - 1 - rank) + (n_chunks - 1) * n_ranks, len(order))
        pairs = zip(forward[first:], backward, strict=False)
        rows.append(forward[:first] + [step for pair in pairs for step in pair] + backward[len(order) - first:])
    return rows


def put_off(n_stages: int, n_micro: int, by: Callable[[int], int],
            first: Callable[[int, int, int], int] = warm_up) -> Schedule:
    """1F1B, or in_turn with another `first`, whose weights' gradients come by(rank) micro-batches later."""
    rows = []
    for rank, steps in enumerate(in_turn(n_stages, n_micro, first)):
        row, done = [], 0
        for kind, micro, stage in steps:
            row.append(Step("F" if kind == "F" else "I", micro, stage))
            if kind == "B" and micro >= by(rank):
                row.append(Step("W", done, stage))
                done += 1
        rows.append(row + [Step("W", micro, rank) for micro in range(done, n_micro)])
    return rows


def zero_bubble(n_stages: int, n_micro: int) -> Schedule:
    """ZB-H1 of Qi et al., arXiv 2401.10241."""
    return put_off(n_stages, n_micro, lambda rank: rank)


def all_kept(n_stages: int, n_micro: int, most: int) -> Schedule:
    """Every rank fills the memory of `most` micro-batches: ZB-H1 at n_stages, ZB-H2 at 2·n_stages − 1, between them a line.

    Source: Qi et al., arXiv 2401.10241, sections 2.1 and 2.2, where the warm-up falls by 1 or by 2 from rank to rank.
    """

    def ahead(rank: int) -> int:
        return (most - 1) * (n_stages - 1 - rank) // (n_stages - 1)

    return put_off(n_stages, n_micro, lambda rank: most - 1 - ahead(rank),
                   lambda n_stages, n_micro, stage: min(ahead(stage), n_micro))
