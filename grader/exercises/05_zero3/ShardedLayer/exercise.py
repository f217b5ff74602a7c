"""ShardedLayer: one layer's parameters, in shards at rest, whole while they are computed with."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from grader.calling.sharding import ROUNDS, dtype_of
from grader.evidence.case import WEIGHED
from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.shared.one_process import TOLERANCE
from grader.exercises.shared.split_inputs import numbers
from grader.exercises.shared.zero_cases import own_pieces
from grader.judging.compare import ANYTHING
from grader.judging.exercise import Case, Draw, Exercise, Slip

Pieces = list[Tensor | None]
THERE = [f"gradients there, round {number}" for number in range(ROUNDS)]


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, shapes: Sequence[tuple[int, ...]], dtype: str | None) -> list[dict[str, Any]]:
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

    small = ((3, 3), (3,), (2,))
    sizes = [(1, small, None), (2, small, None), (3, small, "float32"), (4, ((12, 12), (12,)), None),
             (4, ((2, 1), (1,)), "float32"), *([(5, small, None)] if grading else [])]
    cases = [Case(f"{ranks(n)}, {' and '.join('×'.join(map(str, s)) for s in shapes)}"
                  f"{', computing in ' + dtype if dtype else ''}", tuple(inputs(n, shapes, dtype)))
             for n, shapes, dtype in sizes]
    weighed = [Case("2 ranks, weighed", tuple(own | {WEIGHED: True} for own in inputs(2, ((1700, 1700), (3,), (2,)), None)))]
    return [*cases, group_case(lambda n: inputs(n, small, None)), *(weighed if grading else [])]


def _pieces(case: Case, rank: int, values: Sequence[Tensor | None]) -> Pieces:
    """The part of each parameter's value that lies on `rank`; None where there is none, or no value."""
    parameters = case.inputs[rank]["parameters"]
    filled = [torch.zeros_like(p) if value is None else value for p, value in zip(parameters, values, strict=True)]
    return [None if value is None or not piece.numel() else piece
            for piece, value in zip(own_pieces(case, rank, filled), values, strict=True)]


def _gradients(case: Case, rank: int, numbers: Iterable[int]) -> Pieces:
    """This rank's pieces of the mean gradients, added up over these rounds."""
    sums: Pieces = [None] * len(case.inputs[rank]["parameters"])
    for number in numbers:
        of_members = [rounds[number] for rounds in case.peers_inputs(rank, "gradients")]
        for k, gradients in enumerate(zip(*of_members, strict=True)):
            given = [gradient for gradient in gradients if gradient is not None]  # zeros where there is none
            if given:
                mean = torch.stack(given).sum(0) / len(of_members)
                sums[k] = mean if sums[k] is None else sums[k] + mean
    return _pieces(case, rank, sums)


def _there(case: Case, rank: int, numbers: Iterable[int]) -> list[bool]:
    """Which parameters have had a gradient in these rounds: their pieces have one, empty ones too."""
    of_members = [[rounds[number] for number in numbers] for rounds in case.peers_inputs(rank, "gradients")]
    return [any(gradients[k] is not None for rounds in of_members for gradients in rounds)
            for k in range(len(case.inputs[rank]["parameters"]))]


def _states(case: Case, rank: int) -> dict[str, Any]:
    inputs = case.inputs[rank]
    whole = [p.to(dtype_of(inputs["compute_dtype"] or "float64")) for p in inputs["parameters"]]
    states: dict[str, Any] = {"pieces": _pieces(case, rank, inputs["parameters"])}
    for number in range(ROUNDS):
        sign = (-1) ** number
        states[f"whole, round {number}"] = [p * sign for p in whole]
        states[f"gradients while whole, round {number}"] = [None] * len(whole)
        states[f"pieces, round {number}"] = [piece if piece is None else piece * sign for piece in states["pieces"]]
        states[f"gradients, round {number}"] = _gradients(case, rank, range(number + 1))
        states[f"gradients there, round {number}"] = _there(case, rank, range(number + 1))
    return {**states, "pieces as before": True}  # the sign was changed twice


def _in_own_dtype(case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    parameters = case.inputs[rank]["parameters"]
    return right[rank] | {f"whole, round {number}": [p * (-1) ** number for p in parameters] for number in range(ROUNDS)}


def _never_stepped(case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    """What the optimizer does to the pieces is not seen in what is gathered."""
    return right[rank] | {f"whole, round {number}": right[rank]["whole, round 0"] for number in range(ROUNDS)} | {
        f"pieces, round {number}": ANYTHING for number in range(1, ROUNDS)} | {"pieces as before": ANYTHING}


def _with_gradients(states: dict[str, Any], change: Callable[..., Tensor | None]) -> dict[str, Any]:
    """After every round change(gradient, its parameter's piece) instead of the gradient."""
    rounds = [f"gradients, round {number}" for number in range(ROUNDS)]
    return states | {part: [change(*both) for both in zip(states[part], states["pieces"], strict=True)] for part in rounds}


def _times(states: dict[str, Any], factor: float) -> dict[str, Any]:
    return _with_gradients(states, lambda gradient, piece: None if gradient is None else gradient * factor)


def _zeros_for_none(states: dict[str, Any]) -> dict[str, Any]:
    return _with_gradients(states, lambda gradient, piece: gradient if gradient is not None or piece is None
                           else torch.zeros_like(piece)) | {there: ANYTHING for there in THERE}


def _empty_without(states: dict[str, Any]) -> dict[str, Any]:
    """Pieces without numbers never get a gradient."""
    return states | {there: [has and piece is not None for has, piece in zip(states[there], states["pieces"], strict=True)]
                     for there in THERE}


def _exact(case: Case, rank: int) -> bool:
    """Whether the compute dtype holds this rank's numbers without rounding."""
    dtype = dtype_of(case.inputs[rank]["compute_dtype"])
    shard = [piece for piece in _pieces(case, rank, case.inputs[rank]["parameters"]) if piece is not None]
    return dtype is None or all(torch.equal(piece, piece.to(dtype).to(piece.dtype)) for piece in shard)


EXERCISE = Exercise(
    title="A layer that is whole when needed",
    parameters=("parameters", "group", "compute_dtype"),
    forbidden=("torch.distributed.fsdp", "torch.distributed.tensor"),
    make_cases=_cases,
    oracle=each_rank(_states),
    trains=True,
    measured=True,
    tolerance=TOLERANCE,
    points={"values": 4, "technique": 4},
    slips=(
        Slip("compute dtype ignored", "While whole, parameters have the compute dtype: cast the shard before you gather it.",
             _in_own_dtype),
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
        Slip("empty left out", "A parameter of which this rank holds nothing had a gradient and has none now: its piece is "
                               "an empty tensor and gets an empty gradient, so that p.grad is None on all ranks or none.",
             lambda case, r, right: _empty_without(right[r])),
        Slip("precision lost", "After a round the pieces have lost digits: the shard must stay in its own dtype; only a "
                               "copy is cast.", lambda case, r, right: right[r] | {"pieces as before": _exact(case, r)}),
        Slip("never stepped", "What an optimizer changes in p.data does not reach the next gather(): p.data must be a view "
                              "of the shard, which is cast anew whenever it is gathered.", _never_stepped),
    ),
)
