"""A transformer block, tensor and sequence parallel: no rank has all positions of anything but what it computes with."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from grader.calling.sequences import gradients_by_name, make_block
from grader.evidence.case import WEIGHED
from grader.exercises.shared.cases import group_case, once_a_group, ranks
from grader.exercises.shared.sealed_parts import sealed_parts
from grader.exercises.shared.sequence_inputs import cut_by_name, joined, own_gradients, own_piece
from grader.exercises.shared.split_inputs import first_wrong_slip, or_refused
from grader.judging.compare import ANYTHING
from grader.judging.exercise import Case, Draw, Exercise
from utils.models.blocks import Dropout

NORMS = ("attention_norm.weight", "attention_norm.bias", "mlp_norm.weight", "mlp_norm.bias")
BIASES = ("out.bias", "down.bias")


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


Pass = Callable[[nn.Module, Tensor, Sequence[Dropout]], Tensor]  # (block, x, its three dropouts) -> y


def _drop(case: Case, rank: int, states: Sequence[torch.Generator], dim: int, x: Tensor) -> Tensor:
    """A dropout on the whole tensor: the masks of all shards along dim, each drawn from its rank's state, joined."""
    inputs = case.inputs[rank]
    if not inputs["training"] or not inputs["p"]:
        return x
    shape = [size // len(states) if i == dim else size for i, size in enumerate(x.shape)]
    masks = [torch.empty(shape, dtype=torch.bool).bernoulli_(1 - inputs["p"], generator=state) for state in states]
    return x * torch.cat(masks, dim) / (1 - inputs["p"])


def _plain(block: nn.Module, x: Tensor, drops: Sequence[Dropout]) -> Tensor:
    return block(x, drops)


def _run(case: Case, rank: int, block: nn.Module, way: Pass = _plain) -> tuple[Tensor, Tensor]:
    """The plain block on the whole sequence, forward (in another way, if asked for) and back: y and dx."""
    x = joined(case, rank).requires_grad_()
    states = [torch.Generator().manual_seed(seed) for seed in case.peers_inputs(rank, "seed")]
    y = way(block, x, [partial(_drop, case, rank, states, dim) for dim in (1, 0, 0)])
    (y * joined(case, rank, "weights")).sum().backward()
    return y.detach(), x.grad


@once_a_group
def _whole(case: Case, rank: int) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """y, dx and the gradients by name."""
    block = make_block(case.inputs[rank])
    return *_run(case, rank, block), gradients_by_name(block)


def _right(case: Case, rank: int) -> dict[str, Any]:
    y, dx, gradients = _whole(case, rank)
    return {"y": own_piece(case, rank, y), "dx": own_piece(case, rank, dx), "gradients": cut_by_name(case, rank, gradients)}


# ── slips ──

_slip = first_wrong_slip

Y = Callable[[Case, int, Tensor], Tensor]  # (case, rank, the right y) -> a wrong one


def _times(factor: Callable[[int], float], *names: str) -> Y:
    """These parameters are factor(n) times what they are."""

    def wrong(case: Case, rank: int, y: Tensor) -> Tensor:
        block = make_block(case.inputs[rank])
        for name in names:
            block.get_parameter(name).data *= factor(case.group_size(rank))
        return own_piece(case, rank, _run(case, rank, block)[0])

    return wrong


def _another_way(way: Pass) -> Y:
    """The parts of the block are called in another way."""
    return lambda case, rank, y: own_piece(case, rank, _run(case, rank, make_block(case.inputs[rank]), way=way)[0])


def _attention(block: nn.Module, x: Tensor, drops: Sequence[Dropout]) -> Tensor:
    """The attention's half, with nothing added."""
    return drops[1](block.out(block.attention(block.qkv(block.attention_norm(x)), drops[0])))


def _mlp(block: nn.Module, x: Tensor, drops: Sequence[Dropout]) -> Tensor:
    return drops[2](block.down(block.gelu(block.up(block.mlp_norm(x)))))


def _without_gelu(block: nn.Module, x: Tensor, drops: Sequence[Dropout]) -> Tensor:
    block.gelu = nn.Identity()
    return block(x, drops)


def _one_norm(block: nn.Module, x: Tensor, drops: Sequence[Dropout]) -> Tensor:
    block.mlp_norm = block.attention_norm
    return block(x, drops)


def _side_by_side(block: nn.Module, x: Tensor, drops: Sequence[Dropout]) -> Tensor:
    return x + _attention(block, x, drops) + _mlp(block, x, drops)


def _to_the_input(block: nn.Module, x: Tensor, drops: Sequence[Dropout]) -> Tensor:
    return x + _mlp(block, x + _attention(block, x, drops), drops)


def _to_the_norms(first: bool, second: bool) -> Pass:
    def way(block: nn.Module, x: Tensor, drops: Sequence[Dropout]) -> Tensor:
        h = (block.attention_norm(x) if first else x) + _attention(block, x, drops)
        return (block.mlp_norm(h) if second else h) + _mlp(block, h, drops)

    return way


def _biases_last(block: nn.Module, x: Tensor, drops: Sequence[Dropout], layers: Sequence[str] = ("out", "down")) -> Tensor:
    """The biases of these layers are added after the dropout."""
    biases = []
    for layer in layers:
        biases.append(block.get_parameter(f"{layer}.bias").detach().clone())
        block.get_submodule(layer).bias = None
    added = dict(zip(layers, biases, strict=True))
    h = x + _attention(block, x, drops) + added.get("out", 0)
    return h + _mlp(block, h, drops) + added.get("down", 0)


def _weights_kept(block: nn.Module, x: Tensor, drops: Sequence[Dropout]) -> Tensor:
    """No dropout of the attention weights."""
    return block(x, (lambda weights: weights, *drops[1:]))


def _weights_alone(block: nn.Module, x: Tensor, drops: Sequence[Dropout]) -> Tensor:
    """Dropout of the attention weights and of nothing else."""
    return block(x, (drops[0], *[lambda x: x] * 2))


def _no_dropout(block: nn.Module, x: Tensor, drops: Sequence[Dropout]) -> Tensor:
    return block(x, [lambda x: x] * 3)


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
    title="A block in shards",
    parameters=("block", "group"),
    forbidden=("torch.distributed.tensor",),
    make_cases=_cases,
    oracle=or_refused(_right),
    measured=True,
    trains=True,
    tolerance=1e-5,
    points={"values": 4, "technique": 4},
    slips=(
        *(_slip("bias on every rank", "The biases of out and down are in y n times: each rank added them before the "
                                      "reduce-scatter. Add them afterwards, once.", "y", _times(lambda n: n, *biases))
          for biases in (BIASES, BIASES[:1], BIASES[1:])),
        *(_slip("bias forgotten", "The biases of out and down are missing: add them after the reduce-scatter.", "y",
                _times(lambda n: 0, *biases)) for biases in (BIASES, BIASES[:1], BIASES[1:])),
        *(_slip("bias after dropout", "The biases of out and down are dropped with the rest: bias first, then dropout, then "
                                      "add to x.", "y", _another_way(partial(_biases_last, layers=layers)))
          for layers in (("out", "down"), ("out",), ("down",))),
        _slip("sum divided", "What the reduce-scatters give is divided by n: the ranks' heads and columns give addends of "
                             "one sum.", "y", _times(lambda n: 1 / n, "out.weight", "down.weight")),
        _slip("gelu forgotten", "The GELU between up and down is missing.", "y", _another_way(_without_gelu)),
        _slip("one norm", "The MLP's half has a LayerNorm of its own, mlp_norm.", "y", _another_way(_one_norm)),
        *(_slip("norm added", "Each half is added to its input as it was before the norm, not to the normed one.", "y",
                _another_way(_to_the_norms(*normed))) for normed in ((True, True), (True, False), (False, True))),
        _slip("halves side by side", "The MLP's half starts from the attention half's result, x with attention added; here "
                                     "it starts from the block's input.", "y", _another_way(_side_by_side)),
        _slip("attention not added", "The MLP's half is added to the block's input, and the attention's part of the result "
                                     "is lost: add it to what the attention's half gave.", "y", _another_way(_to_the_input)),
        _slip("weights not dropped", "The attention weights go through no dropout: `block.attention` applies its own if you "
                                     "pass it nothing else.", "y", _another_way(_weights_kept)),
        _slip("dropouts forgotten", "Only the attention weights are dropped. The results of `out` and `down` go through "
                                    "`block.attention_dropout` and `block.mlp_dropout`, after the bias.", "y",
              _another_way(_weights_alone)),
        _slip("no dropout", "Nothing is dropped, although the block is in training mode: apply the block's three dropouts.",
              "y", _another_way(_no_dropout)),
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
