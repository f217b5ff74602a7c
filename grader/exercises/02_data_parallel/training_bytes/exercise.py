"""The 16 bytes a parameter: what training holds, item by item."""

from grader.exercises.shared.formula_cases import FORMULAS, single
from grader.judging.exercise import VALUES, Case, Draw, Exercise

from .technique import ITEMS

BYTES = {False: (4, 4, 0, 4, 4), True: (2, 2, 4, 4, 4)}


def _bytes(n_parameters: int, mixed_precision: bool) -> dict[str, float]:
    """Floats, as of every formula of bytes: they are equal to ints as well."""
    return {name: float(size * n_parameters) for name, size in zip(ITEMS, BYTES[mixed_precision], strict=True)}


def _cases(draw: Draw, grading: bool) -> list[Case]:
    sizes = [1, 7_500_000_000, draw.integer(10, 10**6)]
    return [single(f"{size:,} parameter{'s' * (size > 1)}, {'mixed precision' if mixed else 'float32'}", n_parameters=size,
                   mixed_precision=mixed) for size in sizes for mixed in (False, True)]


EXERCISE = Exercise(
    title="The bytes of a parameter",
    forbidden=FORMULAS,
    parameters=("n_parameters", "mixed_precision"),
    make_cases=_cases,
    oracle=lambda case: [_bytes(**case.inputs[0])],
    points={VALUES: 2},
)
