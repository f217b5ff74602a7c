"""The 16 bytes a parameter: what training holds, item by item."""

from collections.abc import Sequence

from grader.exercises.shared.cases import each_rank
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip

from .technique import ITEMS

BYTES = {False: (4, 4, 0, 4, 4), True: (2, 2, 4, 4, 4)}


def _bytes(n_parameters: int, mixed_precision: bool) -> dict[str, int]:
    return {name: size * n_parameters for name, size in zip(ITEMS, BYTES[mixed_precision], strict=True)}


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [1, 7_500_000_000, draw.integer(10, 10**6)]
    return [Case(f"{size:,} parameters, {'mixed precision' if mixed else 'float32'}",
                 ({"n_parameters": size, "mixed_precision": mixed},)) for size in sizes for mixed in (False, True)]


def _mistaken(id: str, hint: str, sizes: dict[str, int]) -> Slip:
    """Some items have other bytes a parameter."""

    def wrong(case: Case, rank: int, right: list) -> dict[str, int]:
        return right[rank] | {name: size * case.inputs[rank]["n_parameters"] for name, size in sizes.items()}

    return Slip(id, hint, wrong)


EXERCISE = Exercise(
    title="The 16 bytes of a parameter",
    parameters=("n_parameters", "mixed_precision"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: _bytes(**case.inputs[r])),
    points={VALUES: 2},
    slips=(
        Slip("one parameter's", "These are the bytes of one parameter: multiply by their number.",
             lambda case, r, right: _bytes(1, case.inputs[r]["mixed_precision"])),
        Slip("precision ignored", "The two precisions are the other way round, or one is ignored.",
             lambda case, r, right: _bytes(case.inputs[r]["n_parameters"], not case.inputs[r]["mixed_precision"])),
        _mistaken("master copy forgotten", "Mixed precision keeps a float32 copy of the parameters for the optimizer: 4 "
                                           "bytes.", {"master parameters": 0}),
        _mistaken("master copy in float32", "In float32 the parameters are their own master copy: 0 bytes more.",
                  {"master parameters": 4}),
        _mistaken("state halved", "AdamW keeps its momentum and variance in float32 in mixed precision too: 4 bytes each.",
                  {"momentum": 2, "variance": 2}),
        _mistaken("gradients in float32", "In mixed precision the gradients have the parameters' 16 bits: 2 bytes.",
                  {"gradients": 4}),
    ),
)
