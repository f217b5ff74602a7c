"""Flat ranges: which part of a flat array of parameters is whose, when all parts but the last ones are equally long."""

from collections.abc import Sequence

from grader.exercises.shared import cuts
from grader.exercises.shared.cases import each_rank, ranks
from grader.exercises.shared.formula_cases import formula
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip

Range = tuple[int, int]


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(12, 4), (10, 4), (5, 4), (3, 4), (0, 2), (7, 1), (draw.integer(20, 40) * 3 + 1, 3)]
    return [Case(f"{n_elements} number{'s' * (n_elements != 1)} on {ranks(n)}", tuple(
        {"n_elements": n_elements, "n_ranks": n, "rank": rank} for rank in range(n))) for n_elements, n in sizes]


def _range(inputs: dict[str, int], cut: cuts.Cut = cuts.rounded_up) -> Range:
    """Where the rank's part begins and ends; range() cuts it at the end of the array."""
    part = cut(range(inputs["n_elements"]), inputs["rank"], inputs["n_ranks"])
    return part.start, part.stop


def _uncut(inputs: dict[str, int]) -> Range:
    length = -(-inputs["n_elements"] // inputs["n_ranks"])
    return inputs["rank"] * length, (inputs["rank"] + 1) * length


EXERCISE = Exercise(
    title="Whose part of the flat array",
    parameters=("n_elements", "n_ranks", "rank"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: _range(case.inputs[r])),
    points={VALUES: 2},
    slips=(
        formula("tail lost", lambda inputs: _range(inputs, cuts.rounded_down),
                "Rounding down, n_elements // n_ranks, leaves the last elements to nobody: round up."),
        formula("lengths differ by one", lambda inputs: _range(inputs, cuts.balanced),
                "Balanced, but a reduce-scatter needs parts of one length: all have ⌈n_elements/n_ranks⌉ elements, only the "
                "last ones are cut short."),
        formula("beyond the end", _uncut, "A range ends beyond the array: cut it at n_elements."),
        Slip("start beyond the end", "Some ranks have nothing left, and their range starts beyond the array: then start and "
                                     "stop are both n_elements.",
             lambda case, r, right: (_uncut(case.inputs[r])[0], right[r][1])),
        Slip("length for stop", "The second number is where the range ends, not its length.",
             lambda case, r, right: (right[r][0], right[r][1] - right[r][0])),
        Slip("last included", "stop is the first element that is no longer part of the range.",
             lambda case, r, right: (right[r][0], right[r][1] - 1)),
    ),
)
