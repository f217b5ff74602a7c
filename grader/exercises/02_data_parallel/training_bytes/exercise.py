"""The 16 bytes a parameter: what training holds, item by item."""

from collections.abc import Callable

from grader.exercises.shared.formula_cases import FORMULAS, formula, single
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip

from .technique import ITEMS

BYTES = {False: (4, 4, 0, 4, 4), True: (2, 2, 4, 4, 4)}


def _bytes(n_parameters: int, mixed_precision: bool) -> dict[str, float]:
    """Floats, as of every formula of bytes: they are equal to ints as well."""
    return {name: float(size * n_parameters) for name, size in zip(ITEMS, BYTES[mixed_precision], strict=True)}


def _cases(draw: Draw, grading: bool) -> list[Case]:
    sizes = [1, 7_500_000_000, draw.integer(10, 10**6)]
    return [single(f"{size:,} parameter{'s' * (size > 1)}, {'mixed precision' if mixed else 'float32'}", n_parameters=size,
                   mixed_precision=mixed) for size in sizes for mixed in (False, True)]


def _mistaken(id: str, hint: str, sizes: dict[str, int], shows: Callable[[Case], bool] = lambda case: True) -> Slip:
    """Some items have other bytes a parameter."""

    def wrong(case: Case, rank: int, right: list) -> dict[str, float]:
        return right[rank] | {name: float(size * case.inputs[rank]["n_parameters"]) for name, size in sizes.items()}

    return Slip(id, hint, wrong, shows)


EXERCISE = Exercise(
    title="The bytes of a parameter",
    forbidden=FORMULAS,
    parameters=("n_parameters", "mixed_precision"),
    make_cases=_cases,
    oracle=lambda case: [_bytes(**case.inputs[0])],
    points={VALUES: 2},
    slips=(
        formula("one parameter's", lambda inputs: _bytes(1, inputs["mixed_precision"]),
                "These are the bytes of one parameter: multiply by their number."),
        formula("precision ignored", lambda inputs: _bytes(inputs["n_parameters"], not inputs["mixed_precision"]),
                "The two precisions are the other way round, or one is ignored."),
        _mistaken("master copy forgotten", "Mixed precision keeps a float32 copy of the parameters for the optimizer: 4 "
                                           "bytes.", {"master parameters": 0}),
        _mistaken("master copy in float32", "In float32 the parameters are their own master copy: 0 bytes more.",
                  {"master parameters": 4}),
        formula("bits", lambda inputs: {name: 8 * size for name, size in _bytes(**inputs).items()},
                "These are bits: 32 of them are 4 bytes."),
        _mistaken("state halved", "AdamW keeps its momentum and variance in float32 in mixed precision too: 4 bytes each.",
                  {"momentum": 2, "variance": 2}),
        *(_mistaken("one in 16 bits", "Of AdamW's two moments one is counted with 2 bytes: both stay in float32, 4 bytes "
                                      "each.",
                    {name: 2}, lambda case: case.inputs[0]["mixed_precision"]) for name in ("momentum", "variance")),
        _mistaken("gradients in float32", "In mixed precision the gradients have the parameters' 16 bits: 2 bytes.",
                  {"gradients": 4}),
        _mistaken("gradients twice", "The gradients are counted twice in mixed precision, in 16 bits and in float32. They "
                                     "have 2 bytes; what the optimizer keeps in float32 is the master copy and its state.",
                  {"gradients": 6}, lambda case: case.inputs[0]["mixed_precision"]),
        _mistaken("gradients for master copy", "The sum is right, but the gradients have the master copy's bytes, and it "
                                               "has theirs. What the backward pass makes has 16 bits; the copy is there "
                                               "because 16 bits are too few for it.",
                  {"gradients": 4, "master parameters": 2}, lambda case: case.inputs[0]["mixed_precision"]),
    ),
)
