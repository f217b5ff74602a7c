"""Flat ranges: which part of a flat array of parameters is whose, when all parts but the last ones are equally long."""

import math
from collections.abc import Callable, Sequence
from functools import partial

from grader.exercises.shared import cuts
from grader.exercises.shared.cases import each_rank, ranks
from grader.exercises.shared.formula_cases import formula
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip

Range = tuple[int, int]


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(12, 4), (10, 4), (5, 4), (3, 4), (0, 2), (7, 1), (draw.integer(20, 40) * 3 + 1, 3), (10**17 + 1, 4)]
    return [Case(f"{n_elements:,} number{'s' * (n_elements != 1)} on {ranks(n)}", tuple(
        {"n_elements": n_elements, "n_ranks": n, "rank": rank} for rank in range(n))) for n_elements, n in sizes]


def _range(inputs: dict[str, int], cut: cuts.Cut = cuts.rounded_up) -> Range:
    """Where the rank's part begins and ends; range() cuts it at the end of the array."""
    part = cut(range(inputs["n_elements"]), inputs["rank"], inputs["n_ranks"])
    return part.start, part.stop


def _of_length(inputs: dict[str, int], length: int) -> Range:
    """Parts of this length, cut short at the end of the array."""
    return tuple(min(number * length, inputs["n_elements"]) for number in (inputs["rank"], inputs["rank"] + 1))


def _between(inputs: dict[str, int], edge: Callable[[int, int], int]) -> Range:
    """Each rank's exact share is n_elements / n_ranks; edge(numerator, denominator) rounds where shares begin and end."""
    return tuple(edge(number * inputs["n_elements"], inputs["n_ranks"]) for number in (inputs["rank"], inputs["rank"] + 1))


def _uncut(inputs: dict[str, int]) -> Range:
    length = -(-inputs["n_elements"] // inputs["n_ranks"])
    return inputs["rank"] * length, (inputs["rank"] + 1) * length


def _at_an_element(inputs: dict[str, int]) -> Range:
    """No part begins behind the last element."""
    (start, stop), end = _uncut(inputs), inputs["n_elements"]
    begin = min(start, end - 1)
    return begin, min(begin + stop - start, end)


def _last_cut(inputs: dict[str, int], starts_too: bool) -> Range:
    """Only the last part ends where the array does. starts_too: no part begins beyond that."""
    (start, stop), end = _uncut(inputs), inputs["n_elements"]
    beyond = max(0, start - end) if starts_too else 0
    return start - beyond, end if inputs["rank"] == inputs["n_ranks"] - 1 else stop - beyond


EDGES = ("Where a part begins is rounded, so the lengths differ: round the length n_elements / n_ranks up first, once for "
         "all ranks, and begin at rank times that.")

EXERCISE = Exercise(
    title="Whose part of the flat array",
    parameters=("n_elements", "n_ranks", "rank"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: _range(case.inputs[r])),
    trains=True,  # as torch.distributed.tensor, too, takes as long to import
    forbidden=("torch.distributed.tensor", "torch.distributed._shard"),
    points={VALUES: 2},
    slips=(
        formula("floats", lambda inputs: _of_length(inputs, math.ceil(inputs["n_elements"] / inputs["n_ranks"])),
                "Right for small numbers: / gives a float, which has 16 digits. Whole numbers are rounded up by "
                "-(-n_elements // n_ranks)."),
        formula("tail lost", lambda inputs: _range(inputs, cuts.rounded_down),
                "Rounding down, n_elements // n_ranks, leaves the last elements to nobody: round up."),
        formula("rest to the last", lambda inputs: _range(inputs, cuts.rest_to_the_last),
                "Rounded down, with all that is left over for the last rank: then the last part is the longest. Round up, "
                "and the last ones are cut short."),
        formula("one too many", lambda inputs: _of_length(inputs, inputs["n_elements"] // inputs["n_ranks"] + 1),
                "Where n_ranks divides n_elements, nothing is to be rounded up: your parts have one element too many then."),
        formula("edges rounded", lambda inputs: _between(inputs, lambda many, n: -(-many // n)),
                EDGES),
        formula("edges rounded", lambda inputs: _between(inputs, lambda many, n: many // n), EDGES),
        formula("lengths differ by one", lambda inputs: _range(inputs, cuts.balanced),
                "Balanced, but a reduce-scatter needs parts of one length: all have ⌈n_elements/n_ranks⌉ elements, only the "
                "last ones are cut short."),
        *(formula("last part alone cut", partial(_last_cut, starts_too=starts_too),
                  "Only the last rank's part is cut at the end of the array: with few elements others reach beyond it, too.")
          for starts_too in (False, True)),
        formula("beyond the end", _uncut, "A range ends beyond the array: cut it at n_elements."),
        *(Slip("start beyond the end", "Some ranks have nothing left, and their range starts beyond the array: then start "
                                       "and stop are both n_elements.",
               lambda case, r, right, stop=stop: (_uncut(case.inputs[r])[0], stop(_uncut(case.inputs[r])[0], right[r][1])))
          for stop in (lambda start, stop: stop, max)),
        formula("start before the end", _at_an_element, "A rank with nothing left has start = stop = n_elements: then start "
                                                        "is no element's index, and is not held back at the last one."),
        Slip("zero for the end", "A rank with nothing left gets start = stop = n_elements, where the array ends, not zeros.",
             lambda case, r, right: (0, 0) if right[r][0] == right[r][1] else right[r]),
        Slip("length for stop", "The second number is where the range ends, not its length.",
             lambda case, r, right: (right[r][0], right[r][1] - right[r][0])),
        Slip("last included", "stop is the first element that is no longer part of the range.",
             lambda case, r, right: (right[r][0], right[r][1] - 1)),
    ),
)
