"""ShardedLayer: a layer in shards whose gradients are reduced to this rank's slices of their mean."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from grader.calling.sharding import ROUNDS, dtype_of
from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.layer_cases import Pieces, Shapes, layer_cases, pieces_on
from grader.exercises.shared.one_process import TOLERANCE
from grader.exercises.shared.split_inputs import numbers
from grader.judging.compare import ANYTHING
from grader.judging.exercise import Case, Draw, Exercise, Slip

THERE = [f"gradients there, round {number}" for number in range(ROUNDS)]


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


def _with_gradients(states: dict[str, Any], change: Callable[..., Tensor | None]) -> dict[str, Any]:
    """After every round change(gradient, its parameter's slice) instead of the gradient."""
    rounds = [f"gradients, round {number}" for number in range(ROUNDS)]
    return states | {part: [change(*both) for both in zip(states[part], states["pieces"], strict=True)] for part in rounds}


def _times(states: dict[str, Any], factor: float) -> dict[str, Any]:
    return _with_gradients(states, lambda gradient, piece: None if gradient is None else gradient * factor)


def _zeros_for_none(states: dict[str, Any]) -> dict[str, Any]:
    return _with_gradients(states, lambda gradient, piece: gradient if gradient is not None or piece is None
                           else torch.zeros_like(piece)) | {there: ANYTHING for there in THERE}


def _empty_without(states: dict[str, Any]) -> dict[str, Any]:
    """Slices without elements never get a gradient."""
    return states | {there: [has and piece is not None for has, piece in zip(states[there], states["pieces"], strict=True)]
                     for there in THERE}


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
    slips=(
        Slip("sum for mean", "The gradients are n times too large: divide by the number of ranks.",
             lambda case, r, right: _times(right[r], case.group_size(r))),
        Slip("divided twice", "The gradients are n times too small: they are divided by n twice.",
             lambda case, r, right: _times(right[r], 1 / case.group_size(r))),
        Slip("divided by the world", "Right for the whole world, too small in a group: divide by the group's number of "
                                     "ranks.",
             lambda case, r, right: _times(right[r], case.group_size(r) / case.world_size)),
        Slip("last round only", "The gradients of the first round are lost: finish() adds to the gradient that is there.",
             lambda case, r, right: right[r] | {
                 f"gradients, round {ROUNDS - 1}": _gradients(case, r, [ROUNDS - 1]), THERE[-1]: ANYTHING}),
        Slip("zeros for none", "A parameter without a gradient has one of zeros now, by which AdamW would decay it: leave "
                               "None.", lambda case, r, right: _zeros_for_none(right[r])),
        Slip("empty left out", "A parameter of which this rank holds nothing had a gradient and has none now. Its slice is "
                               "an empty tensor and gets an empty gradient, so that p.grad is None on all ranks or none.",
             lambda case, r, right: _empty_without(right[r])),
    ),
)
