"""A transformer block, tensor and sequence parallel: no rank has all positions of anything but what it computes with."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from grader.calling.sequences import gradients_by_name, make_block
from grader.evidence.case import WEIGHED
from grader.exercises.shared.cases import group_case, once_a_group, ranks
from grader.exercises.shared.sealed_parts import sealed_parts
from grader.exercises.shared.sequence_inputs import cut_by_name, joined, own_piece
from grader.exercises.shared.split_inputs import or_refused
from grader.judging.exercise import Case, Draw, Exercise


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, s: int, b: int, dim: int, heads: int, p: float = 0.0, dtype: str = "float64",
               training: bool = True) -> tuple[dict, ...]:
        common = {"dim": dim, "heads": heads, "p": p, "block_seed": draw.seed(), "dtype": dtype,
                  "training": training, "refused": [heads, n] if heads % n else None}
        kind = getattr(torch, dtype)
        return tuple({**common, "seed": draw.seed(), "x": draw.tensor(s, b, dim, dtype=kind) / 50,
                      "weights": draw.tensor(s, b, dim, dtype=kind) / 50} for _ in range(n))

    sizes = [(1, 3, 2, 6, 2), (2, 3, draw.integer(1, 3), 12, 2)]
    sizes += [(5, 1, 2, 10, 5), (2, 4, 1, 20, 4)] if grading else []
    cases = [Case(f"{ranks(n)}, shards of {s} positions, {heads} heads", inputs(n, s, b, dim, heads))
             for n, s, b, dim, heads in sizes]
    if grading:
        cases.append(Case("2 ranks, weighed", tuple(own | {WEIGHED: True} for own in inputs(2, 64, 64, 256, 4))))
        cases.append(Case("4 ranks, sealed", tuple(sealed_parts(own, make_block(own), 4, "block_seed")
                                                   for own in inputs(4, 2, 1, 24, 4))))
    return [*cases, Case("4 ranks, p = 0.25, eval mode", inputs(4, 2, 2, 12, 4, 0.25, training=False)),
            Case("3 ranks, p = 0.25", inputs(3, 2, 1, 6, 3, 0.25)),
            Case("2 ranks, p = 0.25, float32", inputs(2, 3, 2, 12, 4, 0.25, "float32")),
            Case("2 ranks, 3 heads: refused", inputs(2, 2, 1, 6, 3)),
            group_case(lambda n: inputs(n, 2, 1, 12, 6, 0.5), "6 heads, p = 0.5")]


# ── one process ──


def _drop(case: Case, rank: int, states: Sequence[torch.Generator], dim: int, x: Tensor) -> Tensor:
    """A dropout on the whole tensor: the masks of all shards along dim, each drawn from its rank's state, joined."""
    inputs = case.inputs[rank]
    if not inputs["training"] or not inputs["p"]:
        return x
    shape = [size // len(states) if i == dim else size for i, size in enumerate(x.shape)]
    masks = [torch.empty(shape, dtype=torch.bool).bernoulli_(1 - inputs["p"], generator=state) for state in states]
    return x * torch.cat(masks, dim) / (1 - inputs["p"])


@once_a_group
def _whole(case: Case, rank: int) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """The plain block on the whole sequence, forward and back: y, dx and the gradients by name."""
    block, x = make_block(case.inputs[rank]), joined(case, rank).requires_grad_()
    states = [torch.Generator().manual_seed(seed) for seed in case.peers_inputs(rank, "seed")]
    y = block(x, [partial(_drop, case, rank, states, dim) for dim in (1, 0, 0)])
    (y * joined(case, rank, "weights")).sum().backward()
    return y.detach(), x.grad, gradients_by_name(block)


def _right(case: Case, rank: int) -> dict[str, Any]:
    y, dx, gradients = _whole(case, rank)
    return {"y": own_piece(case, rank, y), "dx": own_piece(case, rank, dx), "gradients": cut_by_name(case, rank, gradients)}


EXERCISE = Exercise(
    title="A block in shards",
    parameters=("block", "group"),
    forbidden=("torch.distributed.tensor",),
    make_cases=_cases,
    oracle=or_refused(_right),
    measured=True,
    trains=True,
    tolerance=1e-5,
    points={"values": 4, "technique": 4},
)
