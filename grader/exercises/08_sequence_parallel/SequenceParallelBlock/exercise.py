"""A transformer block, tensor and sequence parallel: no rank has all positions of anything but what it computes with."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from grader.calling.sequences import gradients_by_name, make_block
from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.shared.sequence_inputs import cut_by_name, joined, keep_mask, own_gradients, own_piece
from grader.exercises.shared.split_inputs import first_wrong_slip
from grader.judging.compare import ANYTHING
from grader.judging.exercise import Case, Draw, Exercise

NORMS = ("attention_norm.weight", "attention_norm.bias", "mlp_norm.weight", "mlp_norm.bias")
BIASES = ("out.bias", "down.bias")


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, s: int, b: int, dim: int, heads: int, p: float = 0.0, dtype: str = "float64") -> tuple[dict, ...]:
        common = {"dim": dim, "heads": heads, "p": p, "block_seed": draw.integer(0, 9999), "dtype": dtype,
                  "seed": draw.integer(1, 99) if p else None}
        kind = getattr(torch, dtype)
        return tuple({**common, "x": draw.tensor(s, b, dim, dtype=kind) / 50,
                      "weights": draw.tensor(s, b, dim, dtype=kind) / 50} for _ in range(n))

    sizes = [(1, 3, 2, 6, 2), (2, 3, draw.integer(1, 3), 12, 2), (4, 2, 2, 12, 4), (3, 2, 1, 6, 3)]
    sizes += [(5, 1, 2, 10, 5), (2, 4, 1, 20, 4)] if grading else []
    cases = [Case(f"{ranks(n)}, pieces of {s} positions, {heads} heads", inputs(n, s, b, dim, heads))
             for n, s, b, dim, heads in sizes]
    return [*cases,
            Case("2 ranks, dropout, float32", inputs(2, 3, 2, 12, 4, 0.25, dtype="float32")),
            Case("2 ranks, 3 heads: refused", inputs(2, 2, 1, 6, 3)),
            group_case(lambda n: inputs(n, 2, 1, 12, 6), "pieces of 2 positions, 6 heads")]


def _fits(case: Case) -> bool:
    """Whether the ranks of every group divide the heads."""
    return all(inputs["heads"] % case.group_size(rank) == 0 for rank, inputs in enumerate(case.inputs))


# ── one process ──


def _drop(case: Case, rank: int, mask_of: Callable[[int], int], number: int, dim: int, x: Tensor) -> Tensor:
    """The block's dropout `number` on the whole tensor: the masks of all members' pieces along dim, joined.

    mask_of: of which member a member has its mask, its own if all is right.
    """
    inputs, n = case.inputs[rank], case.group_size(rank)
    shape = [size // n if i == dim else size for i, size in enumerate(x.shape)]
    masks = [keep_mask(shape, inputs["p"], (3 * inputs["seed"] + number) * n + mask_of(r)) for r in range(n)]
    return x * torch.cat(masks, dim) / (1 - inputs["p"])


def _run(case: Case, rank: int, block: nn.Module, mask_of: Callable[[int], int] = lambda r: r) -> tuple[Tensor, Tensor]:
    """The plain block on the whole sequence, forward and back: y and dx."""
    x = joined(case, rank).requires_grad_()
    drops = [partial(_drop, case, rank, mask_of, number, dim) for number, dim in enumerate((1, 0, 0))]
    y = block(x, drops if case.inputs[rank]["seed"] is not None else None)
    (y * joined(case, rank, "weights")).sum().backward()
    return y.detach(), x.grad


def _right(case: Case, rank: int) -> dict[str, Any]:
    if not _fits(case):
        return {"refused": True}
    block = make_block(case.inputs[rank])
    y, dx = _run(case, rank, block)
    return {"y": own_piece(case, rank, y), "dx": own_piece(case, rank, dx),
            "gradients": cut_by_name(case, rank, gradients_by_name(block))}


# ── slips ──


_slip = partial(first_wrong_slip, shows=_fits)  # what is to be refused has no parts


def _biases_times(factor: Callable[[int], float]) -> Callable[[Case, int, Tensor], Tensor]:
    """The biases of out and down are added factor(n) times."""

    def wrong(case: Case, rank: int, y: Tensor) -> Tensor:
        block = make_block(case.inputs[rank])
        for bias in (block.out.bias, block.down.bias):
            bias.data *= factor(case.group_size(rank))
        return own_piece(case, rank, _run(case, rank, block)[0])

    return wrong


def _same_masks(case: Case, rank: int, y: Tensor) -> Tensor:
    same_y, _ = _run(case, rank, make_block(case.inputs[rank]), mask_of=lambda r: 0)
    return own_piece(case, rank, same_y)


def _own(case: Case, rank: int) -> dict[str, Tensor]:
    """What this rank's positions contribute to the gradients of what is whole."""
    block = make_block(case.inputs[rank])
    return own_gradients(case, rank, block, ("attention_norm", "mlp_norm", "out", "down"), partial(_run, case, rank))


def _norms_averaged(case: Case, rank: int, gradients: dict[str, Any]) -> dict[str, Any]:
    means = {name: gradients[name] / case.group_size(rank) for name in NORMS}
    return gradients | means | dict.fromkeys(BIASES, ANYTHING)


def _biases_left_out(case: Case, rank: int, gradients: dict[str, Any]) -> dict[str, Any]:
    own = _own(case, rank)
    return gradients | {name: own[name] for name in BIASES}


EXERCISE = Exercise(
    title="A block in pieces",
    parameters=("block", "group"),
    make_cases=_cases,
    oracle=each_rank(_right),
    tolerance=1e-5,
    points={"values": 4, "technique": 4},
    slips=(
        _slip("bias on every rank", "The biases of out and down are in y n times: each rank added them before the "
                                    "reduce-scatter. Add them afterwards, once.", "y", _biases_times(lambda n: n)),
        _slip("bias forgotten", "The biases of out and down are missing: add them after the reduce-scatter.", "y",
              _biases_times(lambda n: 0)),
        _slip("same masks", "All ranks draw the same dropout masks: their heads and positions differ, and so must their "
                            "masks. Use local_dropout.", "y", _same_masks),
        _slip("norms not reduced", "y and dx are right; the LayerNorms' gradients are those of this rank's positions "
                                   "only. All ranks have used these weights: sum over ranks in reduce_gradients().",
              "gradients", lambda case, r, gradients: gradients | _own(case, r) | dict.fromkeys(BIASES, ANYTHING)),
        _slip("norms averaged", "The LayerNorms' gradients are n times too small: all ranks compute parts of one loss, so "
                                "they are summed.", "gradients", _norms_averaged),
        _slip("biases left out", "The biases of out and down are whole on every rank and were used on its positions only, "
                                 "as the LayerNorms' were: reduce their gradients too.", "gradients",
              _biases_left_out),
    ),
)
