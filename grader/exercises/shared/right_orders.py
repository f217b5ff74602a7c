"""The schedules that students generate, the sizes that they are generated in, and slips in making them."""

from collections.abc import Callable, Sequence

from grader.exercises.technique.schedules import Rows
from grader.judging.exercise import Case, Slip
from utils.schedules.schedule import Step


def size_cases(sizes: Sequence[tuple[int, ...]], *names: str) -> list[Case]:
    """One rank, a case a size; names: of the numbers of a size."""
    what = {"n_stages": "stages", "n_micro": "micro-batches", "n_ranks": "ranks", "n_chunks": "chunks"}
    return [Case(", ".join(f"{number} {what[name][:-1] if number == 1 and name != 'n_micro' else what[name]}"
                           for number, name in zip(size, names, strict=True)),
                 (dict(zip(names, size, strict=True)),)) for size in sizes]


def made_by(id: str, hint: str, reading: Callable[[Case, Rows], object], make: Callable[..., Rows]) -> Slip:
    """The schedule that make(n_stages, n_micro), or with the names of the exercise's own sizes, gives in place of it."""
    return Slip(id, hint, lambda case, rank, right: reading(case, make(**case.inputs[0])))


def gpipe(n_stages: int, n_micro: int) -> Rows:
    return [[Step(kind, micro, stage) for kind in "FB" for micro in range(n_micro)] for stage in range(n_stages)]


def warm_up(n_stages: int, n_micro: int, stage: int) -> int:
    """How many forwards come first in 1F1B."""
    return min(n_stages - 1 - stage, n_micro)


def in_turn(n_stages: int, n_micro: int, first: Callable[[int, int, int], int]) -> Rows:
    """first(n_stages, n_micro, stage) forwards, one forward and one backward in turn, then the other backwards."""
    rows = []
    for stage in range(n_stages):
        n_first = first(n_stages, n_micro, stage)
        steady = [Step(kind, micro, stage) for done in range(n_micro - n_first)
                  for kind, micro in (("F", n_first + done), ("B", done))]
        rows.append([Step("F", micro, stage) for micro in range(n_first)] + steady
                    + [Step("B", micro, stage) for micro in range(max(0, n_micro - n_first), n_micro)])
    return rows


def one_f_one_b(n_stages: int, n_micro: int) -> Rows:
    return in_turn(n_stages, n_micro, warm_up)


def interleaved(n_ranks: int, n_chunks: int, n_micro: int) -> Rows:
    """Narayanan et al., arXiv 2104.04473, section 2.2: groups of n_ranks micro-batches, chunk after chunk."""
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


def put_off(n_stages: int, n_micro: int, by: Callable[[int], int]) -> Rows:
    """1F1B whose weights' gradients come by(rank) micro-batches later."""
    rows = []
    for rank, steps in enumerate(one_f_one_b(n_stages, n_micro)):
        row, done = [], 0
        for kind, micro, stage in steps:
            row.append(Step("F" if kind == "F" else "I", micro, stage))
            if kind == "B" and micro >= by(rank):
                row.append(Step("W", done, stage))
                done += 1
        rows.append(row + [Step("W", micro, rank) for micro in range(done, n_micro)])
    return rows


def zero_bubble(n_stages: int, n_micro: int) -> Rows:
    """ZB-H1 of Qi et al., arXiv 2401.10241."""
    return put_off(n_stages, n_micro, lambda rank: rank)
