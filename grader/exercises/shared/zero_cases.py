"""Cases and known mistakes that the exercises of ZeRO-1 and ZeRO-2 share."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from grader.exercises.shared.cases import ranks
from grader.exercises.shared.formula_cases import single
from grader.exercises.shared.training_cases import SEEDS, Inputs, model_cases
from grader.judging.exercise import Case, Draw, Slip


def odd_models(draw: Draw, grading: bool, inputs: Inputs, tiny: str) -> Sequence[Case]:
    """Every odd model; and one that is `tiny`, on more ranks than it has tensors, or some tensor numbers."""
    cases = model_cases(draw, grading, ("mlp", "tied", "frozen", "unused", "gpt", "mixed"), inputs)
    small = Case(f"4 ranks, {tiny}", tuple(inputs("linear", 4, draw.integer(0, SEEDS))))
    return [*cases[:-1], small, cases[-1]]


def optimizer_for(model: str, n_ranks: int) -> dict[str, Any]:
    """Which optimizer trains, and its options. AdamW makes rounding errors of float32 as large as a step."""
    if n_ranks == 3 or model == "mixed":
        return {"optimizer": "SGD", "options": {"momentum": 0.9}}
    return {"optimizer": "AdamW", "options": {}}


def with_inputs(case: Case, **changed: Any) -> Case:
    """The same case with some inputs changed, on all ranks."""
    return replace(case, inputs=tuple(inputs | changed for inputs in case.inputs))


# ── what a rank holds ──


def byte_cases(draw: Draw, grading: bool) -> Sequence[Case]:
    """A 7.5B model, as the paper has it, and sizes that the number of ranks does not divide."""
    sizes = [(7_500_000_000, 64), (7_500_000_000, 1), (draw.integer(1, 99) * 10**6, 4), (1_000_000, draw.integer(5, 1000))]
    return [single(f"{size:,} parameters on {ranks(n)}", n_parameters=size, n_ranks=n) for size, n in sizes]


def bytes_slip(id: str, a_parameter: Callable[[int], float], hint: str) -> Slip:
    """a_parameter: n ranks -> how many bytes are held for each parameter by this mistake."""

    def wrong(case: Case, rank: int, right: list[float]) -> float:
        inputs = case.inputs[rank]
        return a_parameter(inputs["n_ranks"]) * float(inputs["n_parameters"])

    return Slip(id, hint, wrong)
