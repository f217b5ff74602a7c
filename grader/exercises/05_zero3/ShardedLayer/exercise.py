"""ShardedLayer: a layer in shards whose gradients are reduced to this rank's slices of their mean."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from grader.calling.sharding import ROUNDS, dtype_of
from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.layer_cases import Pieces, Shapes, layer_cases, pieces_on
from grader.exercises.shared.one_process import TOLERANCE
from grader.exercises.shared.split_inputs import numbers
from grader.judging.exercise import Case, Draw, Exercise


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, shapes: Shapes, dtype: str | None) -> list[dict[str, Any]]:
        """From the end: the last parameter gets a gradient in each round, but on the first rank not in the second one; the
        one before only in the second round (on 3 ranks one of zeros, which is a gradient too); another before it in neither.
        """
        parameters, last = [numbers(draw, *shape) for shape in shapes], len(shapes) - 1

        def given(rank: int, number: int, k: int) -> bool:
            return (k == last and not (number and rank == 0 and n > 1)) or (k == last - 1 and number == 1)

        return [{"parameters": parameters, "compute_dtype": dtype, "gradients": [
            [numbers(draw, *shape) * (n != 3 or k == last) if given(rank, number, k) else None
             for k, shape in enumerate(shapes)]
            for number in range(ROUNDS)]} for rank in range(n)]

    return layer_cases(grading, inputs)


def _gradients(case: Case, rank: int, numbers: Iterable[int]) -> Pieces:
    """This rank's slices of the mean gradients, added up over these rounds."""
    sums: Pieces = [None] * len(case.inputs[rank]["parameters"])
    for number in numbers:
        of_members = [rounds[number] for rounds in case.peers_inputs(rank, "gradients")]
        for k, gradients in enumerate(zip(*of_members, strict=True)):
            given = [gradient for gradient in gradients if gradient is not None]  # zeros where there is none
            if given:
                mean = torch.stack(given).sum(0) / len(of_members)
                sums[k] = mean if sums[k] is None else sums[k] + mean
    return pieces_on(case, rank, sums)


def _there(case: Case, rank: int, numbers: Iterable[int]) -> list[bool]:
    """Which parameters have had a gradient in these rounds: their slices have one, empty ones too."""
    of_members = [[rounds[number] for number in numbers] for rounds in case.peers_inputs(rank, "gradients")]
    return [any(gradients[k] is not None for rounds in of_members for gradients in rounds)
            for k in range(len(case.inputs[rank]["parameters"]))]


def _states(case: Case, rank: int) -> dict[str, Any]:
    inputs = case.inputs[rank]
    whole = [p.to(dtype_of(inputs["compute_dtype"] or "float64")) for p in inputs["parameters"]]
    states: dict[str, Any] = {"pieces": pieces_on(case, rank, inputs["parameters"])}
    for number in range(ROUNDS):
        states[f"whole, round {number}"] = whole
        states[f"gradients, round {number}"] = _gradients(case, rank, range(number + 1))
        states[f"gradients there, round {number}"] = _there(case, rank, range(number + 1))
    return states


EXERCISE = Exercise(
    title="Reduce the gradients of a layer",
    parameters=("parameters", "group", "compute_dtype"),
    forbidden=("torch.distributed.fsdp", "torch.distributed.tensor"),
    make_cases=_cases,
    oracle=each_rank(_states),
    trains=True,
    measured=True,
    tolerance=TOLERANCE,
    points={"values": 2, "technique": 2},
)
