"""Flat ranges: which part of a flat array of parameters is whose, when all parts but the last ones are equally long."""

from collections.abc import Callable, Sequence

from grader.exercises.shared.cases import each_rank, ranks
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip

Range = tuple[int, int]


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(12, 4), (10, 4), (5, 4), (3, 4), (0, 2), (7, 1), (draw.integer(20, 40) * 3 + 1, 3)]
    return [Case(f"{n_elements} number{'s' * (n_elements != 1)} on {ranks(n)}", tuple(
        {"n_elements": n_elements, "n_ranks": n, "rank": rank} for rank in range(n))) for n_elements, n in sizes]


def _range(n_elements: int, n_ranks: int, rank: int) -> Range:
    start, stop = _uncut(n_elements, n_ranks, rank)
    return min(start, n_elements), min(stop, n_elements)


def _uncut(n_elements: int, n_ranks: int, rank: int) -> Range:
    length = -(-n_elements // n_ranks)
    return rank * length, (rank + 1) * length


def _down(n_elements: int, n_ranks: int, rank: int) -> Range:
    length = n_elements // n_ranks
    return rank * length, (rank + 1) * length


def _balanced(n_elements: int, n_ranks: int, rank: int) -> Range:
    length, more = divmod(n_elements, n_ranks)
    return rank * length + min(rank, more), (rank + 1) * length + min(rank + 1, more)


def _by(id: str, rule: Callable[..., Range], hint: str) -> Slip:
    """A misconception: rule(n_elements, n_ranks, rank) -> range."""
    return Slip(id, hint, lambda case, r, right: rule(**case.inputs[r]))


EXERCISE = Exercise(
    title="Whose part of the flat array",
    parameters=("n_elements", "n_ranks", "rank"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: _range(**case.inputs[r])),
    points={VALUES: 2},
    slips=(
        _by("tail lost", _down, "Rounding down, n_elements // n_ranks, leaves the last elements to nobody: round up."),
        _by("lengths differ by one", _balanced, "Balanced, but a reduce-scatter needs parts of one length: all have "
            "⌈n_elements/n_ranks⌉ elements, only the last ones are cut short."),
        _by("beyond the end", _uncut, "A range ends beyond the array: cut it at n_elements."),
        Slip("start beyond the end", "Some ranks have nothing left, and their range starts beyond the array: then start and "
                                     "stop are both n_elements.",
             lambda case, r, right: (_uncut(**case.inputs[r])[0], right[r][1])),
        Slip("length for stop", "The second number is where the range ends, not its length.",
             lambda case, r, right: (right[r][0], right[r][1] - right[r][0])),
        Slip("last included", "stop is the first element that is no longer part of the range.",
             lambda case, r, right: (right[r][0], right[r][1] - 1)),
    ),
)
