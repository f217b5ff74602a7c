"""make_tensor_parallel: a tiny GPT whose blocks are split over the ranks trains as the plain one does."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from grader.calling.splitting import make_gpt
from grader.exercises.shared.cases import group_case, ranks
from grader.exercises.shared.sealed_parts import sealed_parts
from grader.exercises.shared.split_inputs import first_wrong_slip, or_refused
from grader.exercises.technique.splitting import TOLERANCE
from grader.judging.compare import ANYTHING
from grader.judging.exercise import Case, Draw, Exercise, Slip
from utils.models.shards import cut_dim, piece
from utils.models.tiny import TinyGPT, next_byte_loss

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


def _loss(model: TinyGPT, tokens_BT: Tensor) -> Tensor:
    return next_byte_loss(model(tokens_BT[:, :-1]), tokens_BT[:, 1:]).mean()


def _train(inputs: dict[str, Any]) -> dict[str, Any]:
    """One plain process."""
    model = make_gpt(inputs)
    named = dict(model.named_parameters())
    start = {name: p.detach().clone() for name, p in named.items()}
    losses, first = [], {}
    for tokens_BT in inputs["batches"]:
        loss = _loss(model, tokens_BT)
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


def _cut_through(case: Case, rank: int, right: dict[str, Tensor], kinds: tuple[str, ...]) -> dict[str, Tensor]:
    """Of qkv the r-th of n pieces of neighbouring rows."""
    n, r = case.group_size(rank), case.group_rank(rank)
    qkv = {name: p.detach().chunk(n)[r] for name, p in make_gpt(case.inputs[rank]).named_parameters() if ".qkv." in name}
    return right | {name: p for name, p in qkv.items() if name.endswith(kinds)}


def _taken_by_head(model: TinyGPT) -> None:
    """qkv's rows, as if those of q, k and v of head 0 came first, then those of head 1, in thirds."""
    with torch.no_grad():
        for block in model.blocks:
            for p in block.qkv.parameters():
                p.copy_(p.unflatten(0, (block.n_heads, 3, -1)).transpose(0, 1).flatten(0, 2))


def _changed_start(change: Callable[[TinyGPT], None]) -> Callable[[Case, int, dict[str, Tensor]], dict[str, Tensor]]:
    """The parts of a model to which change(model) was done."""

    def start(case: Case, rank: int, right: dict[str, Tensor]) -> dict[str, Tensor]:
        model = make_gpt(case.inputs[rank])
        change(model)
        n, r = case.group_size(rank), case.group_rank(rank)
        return {name: _cut(name, p.detach(), r, n) for name, p in model.named_parameters()}

    return start


def _thirds_exchanged(model: TinyGPT) -> None:
    with torch.no_grad():
        for block in model.blocks:
            for p in block.qkv.parameters():
                p.copy_(torch.cat(p.chunk(3)[::-1]))


def _first_loss(id: str, hint: str, change: Callable[[TinyGPT, int], None],
                shows: Callable[[Case], bool] = lambda case: True) -> Slip:
    """The first loss is that of a plain model to which change(model, n) was done."""

    def losses(case: Case, rank: int, right: list[Tensor]) -> list[Any]:
        model = make_gpt(case.inputs[rank])
        change(model, case.group_size(rank))
        return [_loss(model, case.inputs[rank]["batches"][0]).detach(), *[ANYTHING for _ in right[1:]]]

    return first_wrong_slip(id, hint, "losses", losses, shows)


def _heads_can_be_smaller(case: Case) -> bool:
    """Elsewhere the function raises."""
    return all(inputs["model"]["dim"] % (inputs["model"]["n_heads"] * case.group_size(rank)) == 0
               for rank, inputs in enumerate(case.inputs))


def _smaller_heads(model: TinyGPT, n: int) -> None:
    for block in model.blocks:
        block.n_heads *= n


def _more_biases(model: TinyGPT, n: int) -> None:
    with torch.no_grad():
        for block in model.blocks:
            block.out.bias *= n
            block.down.bias *= n


EXERCISE = Exercise(
    title="A GPT in parallel",
    parameters=("model", "group"),
    make_cases=_cases,
    oracle=or_refused(_right),
    trains=True,
    measured=True,
    forbidden=("torch.distributed.tensor",),
    tolerance=TOLERANCE,
    points={"values": 4, "technique": 4},
    slips=(
        first_wrong_slip("qkv cut through", "qkv was cut into n pieces of neighbouring rows: rank 0 then has q's rows and "
                                            "none of v's. A rank needs its heads' rows of q, of k and of v.",
                         "start", partial(_cut_through, kinds=("weight", "bias"))),
        *(first_wrong_slip(f"qkv's {kind} cut through", (
            f"Of qkv the {kind} was cut into n pieces of neighbouring rows: cut it as the other, by heads of q, k and v."),
            "start", partial(_cut_through, kinds=(kind,))) for kind in ("weight", "bias")),
        first_wrong_slip("q, k and v exchanged", (
            "The rows of q, k and v are joined in another order: first q, then k, then v."),
            "start", _changed_start(_thirds_exchanged)),
        first_wrong_slip("qkv taken by head", (
            "qkv's rows were taken to lie head by head: q, k and v of head 0, then of head 1. Here they lie in thirds: all "
            "of q, then all of k, then all of v."), "start", _changed_start(_taken_by_head)),
        _first_loss("heads not divided", "A rank has n_heads / n heads of the old size; here n_heads stayed, so that the "
                                         "heads became smaller.", _smaller_heads, _heads_can_be_smaller),
        _first_loss("bias n times", "The biases of out and down are counted once a rank: add them after the all-reduce.",
                    _more_biases),
    ),
)
