"""make_tensor_parallel: a tiny GPT whose blocks are split over the ranks trains as the plain one does."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from grader.calling.splitting import make_gpt
from grader.exercises.shared.cases import group_case, ranks
from grader.exercises.shared.sealed_parts import sealed_parts
from grader.exercises.shared.split_inputs import or_refused
from grader.exercises.technique.splitting import TOLERANCE
from grader.judging.exercise import Case, Draw, Exercise
from utils.models.shards import cut_dim, piece
from utils.models.tiny import next_byte_loss

ROWS, LENGTH, STEPS, LR = 2, 5, 2, 0.2


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, dim: int, heads: int, layers: int = 1, dtype: str = "float64",
               tied: bool = True) -> tuple[dict[str, Any], ...]:
        model = {"length": LENGTH, "dim": dim, "n_layers": layers, "n_heads": heads, "tied": tied}
        batches = [draw.tensor(ROWS, LENGTH + 1, dtype=torch.int64).abs() for _ in range(STEPS)]
        return ({"model": model, "seed": draw.seed(), "dtype": dtype, "batches": batches, "lr": LR,
                 "refused": [heads, n] if heads % n else None},) * n

    sizes = [(1, 6, 2, 1, "float64", True), (2, 12, 2, 2, "float64", True), (4, 12, 4, 1, "float64", False),
             (3, 18, 6, 1, "float32", True)]
    if grading:
        sizes += [(2, 12, 4, 2, "float64", False), (2, 20, 10, 1, "float32", True)]
    cases = [Case(f"{ranks(n)}, {layers} × {dim} wide, {heads} heads, {'tied' if tied else 'head of its own'}, {dtype}",
                  inputs(n, dim, heads, layers, dtype, tied)) for n, dim, heads, layers, dtype, tied in sizes]
    if grading:
        cases.append(Case("4 ranks, sealed",
                          tuple(sealed_parts(own, make_gpt(own), 4, "seed", qkv_parts=3) for own in inputs(4, 24, 4))))
    groups = group_case(lambda n: inputs(n, 2 * n, n), "one head each")
    return [*cases, groups, Case("3 ranks, 4 heads: refused", inputs(3, 12, 4))]


def _cut(name: str, whole: Tensor, rank: int, n: int) -> Tensor:
    """The part of a parameter that lies on `rank`; of qkv its rows of q, of k and of v."""
    dim = cut_dim(name)
    if dim is None:
        return whole
    return torch.cat([piece(part, rank, n, dim) for part in (whole.chunk(3) if ".qkv." in name else [whole])])


def _train(inputs: dict[str, Any]) -> dict[str, Any]:
    """One plain process."""
    model = make_gpt(inputs)
    named = dict(model.named_parameters())
    start = {name: p.detach().clone() for name, p in named.items()}
    losses, first = [], {}
    for tokens_BT in inputs["batches"]:
        loss = next_byte_loss(model(tokens_BT[:, :-1]), tokens_BT[:, 1:]).mean()
        gradients = torch.autograd.grad(loss, list(named.values()))
        first = first or dict(zip(named, gradients, strict=True))
        losses.append(loss.detach())
        with torch.no_grad():
            for p, gradient in zip(named.values(), gradients, strict=True):
                p -= inputs["lr"] * gradient
    return {"start": start, "losses": losses, "gradients": first, "parameters": {k: p.detach() for k, p in named.items()}}


def _right(case: Case, rank: int) -> dict[str, Any]:
    """What the plain process has of this rank's part."""
    whole, n, r = _train(case.inputs[rank]), case.group_size(rank), case.group_rank(rank)
    parts = {key: {name: _cut(name, tensor, r, n) for name, tensor in whole[key].items()}
             for key in ("start", "gradients", "parameters")}
    return whole | parts


EXERCISE = Exercise(
    title="A GPT in parallel",
    parameters=("model", "group"),
    make_cases=_cases,
    edges={},  # a GPT's weight is tied as a rule
    oracle=or_refused(_right),
    trains=True,
    measured=True,
    forbidden=("torch.distributed.tensor",),
    tolerance=TOLERANCE,
    points={"values": 4, "technique": 4},
)
