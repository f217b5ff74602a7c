"""A transformer block, tensor and sequence parallel: no rank has all positions of anything but what it computes with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.calling.sequences import BACKWARD, FORWARD, make_block
from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.shared.sequence_inputs import (
    cut_by_name,
    gradients_of,
    joined,
    kept_at_most,
    not_refused,
    numbers_at_most,
    only_within,
    own_piece,
    part,
)
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, group_size, results_waited
from grader.judging.exercise import Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, unwaited, wrong_ranks
from utils.costs.formulas import bytes_sent_per_rank
from utils.models.sequence_shards import CUT_DIMS

from ..local_dropout.exercise import keep_mask

PARTS = ("y", "dx", "gradients")
GATHERS, REDUCTIONS = 6, 4  # forward: 2 and 2; backward: 2 and 2, and each gathered input once more


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, s: int, b: int, dim: int, heads: int, p: float = 0.0, dtype: str = "float64") -> tuple[dict, ...]:
        common = {"dim": dim, "heads": heads, "p": p, "block_seed": draw.integer(0, 9999), "dtype": dtype,
                  "seed": draw.integer(1, 99) if p else None}
        kind = getattr(torch, dtype)
        return tuple({**common, "x": draw.tensor(s, b, dim, dtype=kind) / 50,
                      "weights": draw.tensor(s, b, dim, dtype=kind) / 50} for _ in range(n))

    sizes = [(1, 3, 2, 6, 2), (2, 3, draw.integer(1, 3), 12, 2), (4, 2, 2, 12, 4), (3, 2, 1, 6, 3)]
    sizes += [(5, 1, 2, 10, 5), (2, 4, 1, 20, 4)] * grading
    cases = [Case(f"{ranks(n)}, pieces of {s} positions, {heads} heads", inputs(n, s, b, dim, heads))
             for n, s, b, dim, heads in sizes]
    cases.append(Case("2 ranks, dropout, float32", inputs(2, 3, 2, 12, 4, 0.25, dtype="float32")))
    cases.append(Case("2 ranks, 3 heads: refused", inputs(2, 2, 1, 6, 3)))
    cases.append(group_case(lambda n: inputs(n, 2, 1, 12, 6), "pieces of 2 positions, 6 heads"))
    return cases


def drop(case: Case, rank: int, number: int, dim: int, x: Tensor, same_masks: bool = False) -> Tensor:
    """The block's dropout `number` on the whole tensor: the masks of all members' pieces along dim, joined."""
    inputs, n = case.inputs[rank], len(case.members(rank))
    shape = [size // n if i == dim else size for i, size in enumerate(x.shape)]
    masks = [keep_mask(shape, inputs["p"], 3 * inputs["seed"] + number, 0 if same_masks else r, n) for r in range(n)]
    return x * torch.cat(masks, dim) / (1 - inputs["p"])


def _plain(case: Case, rank: int, biases: float = 1.0, norms: str = "sum", masks: bool = False) -> dict[str, Any]:
    """One process. Wrong ways: the biases of out and down added so often; what every rank has whole with gradients of its
    own positions ("own") or averaged ("mean"); the same masks on all ranks."""
    inputs, n = case.inputs[rank], len(case.members(rank))
    if inputs["heads"] % n:
        return {"refused": True}
    block, x, weights = make_block(inputs), joined(case, rank).requires_grad_(), joined(case, rank, "weights")
    with torch.no_grad():
        block.out.bias *= biases
        block.down.bias *= biases
    drops = None if inputs["seed"] is None else [partial(drop, case, rank, k, dim, same_masks=masks)
                                                 for k, dim in enumerate((1, 0, 0))]
    y = block(x, drops)
    (y * weights).sum().backward(retain_graph=norms == "own")
    gradients, dx = gradients_of(block), x.grad
    if norms == "own":
        own = _own_gradients(case, rank, block, x)
        gradients = {name: one if name in CUT_DIMS else own[name] for name, one in gradients.items()}
    if norms == "mean":
        gradients = {name: one if name in CUT_DIMS else one / n for name, one in gradients.items()}
    return {"y": own_piece(case, rank, y.detach()), "dx": own_piece(case, rank, dx),
            "gradients": cut_by_name(case, rank, gradients)}


def _own_gradients(case: Case, rank: int, block: Any, x: Tensor) -> dict[str, Tensor]:
    """The gradients that a rank has of what is whole: from its own positions, with what comes back from all the others."""
    n, r = len(case.members(rank)), case.group_rank(rank)
    norms = {"attention_norm": block.attention_norm, "mlp_norm": block.mlp_norm}
    kept: dict[str, tuple[Tensor, Tensor]] = {}

    def note(name: str, module: Any, args: tuple[Tensor, ...], output: Tensor) -> None:
        kept[name] = args[0].detach(), output
        output.retain_grad()

    hooks = [getattr(block, name).register_forward_hook(partial(note, name)) for name in (*norms, "out", "down")]
    (block(x.detach().requires_grad_()) * joined(case, rank, "weights")).sum().backward()
    for hook in hooks:
        hook.remove()
    found = {}
    for name, norm in norms.items():
        before, after = kept[name]
        dy = after.grad.chunk(n)[r]
        found[f"{name}.weight"] = (F.layer_norm(before.chunk(n)[r], norm.normalized_shape) * dy).sum((0, 1))
        found[f"{name}.bias"] = dy.sum((0, 1))
    return found | {f"{name}.bias": kept[name][1].grad.chunk(n)[r].sum((0, 1)) for name in ("out", "down")}


def _gradients_as(how: str) -> Callable[[Look], bool]:
    """On every wrong rank the gradients of the LayerNorms are those of another way."""
    def test(look: Look, rank: int, found: Any, expected: Any) -> bool:
        instead = _plain(look.case, rank, norms=how)["gradients"]
        names = [name for name in instead if "norm" in name]
        return (same(found["dx"], expected["dx"], 1e-5) and look.case.inputs[rank]["seed"] is None
                and all(same(found["gradients"][name], instead[name], 1e-5) for name in names))

    return wrong_ranks(test)


def _left_out(look: Look, rank: int, found: Any, expected: Any) -> bool:
    """The LayerNorms' gradients are right; those of the biases of out and down are not."""
    wrong = {name for name in expected["gradients"] if not same(found["gradients"][name], expected["gradients"][name], 1e-5)}
    return same(found["dx"], expected["dx"], 1e-5) and bool(wrong) and wrong <= {"out.bias", "down.bias"}


def _result_as(**other: Any) -> Callable[[Look], bool]:
    return wrong_ranks(lambda look, r, found, expected: not same(found["y"], expected["y"], 1e-5) and same(
        found["y"], _plain(look.case, r, **other)["y"], 1e-5))


def _bias_n_times(look: Look) -> bool:
    return look.case.groups is None and _result_as(biases=float(look.case.world_size))(look)


def _whole_bytes(look: Look, rank: int) -> int:
    return group_size(look, rank) * look.case.inputs[rank]["x"].nbytes


def _sent(look: Look, rank: int) -> float:
    n, whole, dim = group_size(look, rank), _whole_bytes(look, rank), look.case.inputs[rank]["dim"]
    small = bytes_sent_per_rank("all_reduce", 6 * dim * look.case.inputs[rank]["x"].itemsize, n)
    return (GATHERS * bytes_sent_per_rank("all_gather", whole, n) + REDUCTIONS * bytes_sent_per_rank(
        "reduce_scatter", whole, n) + small)


def _kept(look: Look, rank: int) -> float:
    """16 pieces of x (34 bytes of 2 without masks), the scores' two, LayerNorm's means; and half a whole x to spare."""
    n, inputs = group_size(look, rank), look.case.inputs[rank]
    (s, b, _), size, masks = inputs["x"].shape, inputs["x"].itemsize, inputs["seed"] is not None
    weights = inputs["heads"] // n * (n * s) ** 2 * b
    return 17 * inputs["x"].nbytes + (1 + 2 * masks) * weights * size + 4 * s * b * size + 0.4 * _whole_bytes(look, rank) + (
        2 * masks * inputs["x"].nbytes)


def _share(look: Look, rank: int) -> int:
    dim, n = look.case.inputs[rank]["dim"], group_size(look, rank)
    return 12 * dim * dim // n + 7 * dim // n + 6 * dim


EXERCISE = Exercise(
    title="A block in pieces",
    parameters=("block", "group"),
    make_cases=_cases,
    oracle=each_rank(_plain),
    tolerance=1e-5,
    points={"values": 4, "technique": 4},
    technique=Technique(
        demands=(
        only_within((FORWARD, BACKWARD), "all_gather", "reduce_scatter", id="all-reduce left", hint=(
            "In forward and backward only all-gathers and reduce-scatters are left: where a pair of tensor-parallel layers "
            "ended in an all-reduce, each rank now takes its piece of the sum by a reduce-scatter.")),
        numbers_at_most(_share),
        kept_at_most(_kept, "34sbh/t and 5as²b/t, in this case's bytes a number",
                     "The result is right, but more is kept for backward than pieces: qkv's and up's inputs through "
                     "GatherLinear, which saves the piece; out's and down's results through ScatterSequence.", "whole kept"),
        bytes_sent(_sent, "10(n−1)/n of x's bytes, and one small all-reduce",
                   "Right, but more was sent than 4 all-gathers and reduce-scatters forward, 4 backward, and 2 gathers "
                   "again."),
        results_waited(),
    ),
        symptoms=(
        group_ignored("The ranks of other groups are touched: pass the group to every function, and to dist.get_rank and "
                      "dist.get_world_size."),
        unwaited(),
        Symptom("not refused", "Heads that the ranks do not divide must raise a ValueError that names both: cut_block does.",
                not_refused("")),
        Symptom("bias on every rank", "The biases of out and down are in y n times: each rank added them before the "
                                      "reduce-scatter. Add them afterwards, once.", _bias_n_times),
        Symptom("bias forgotten", "The biases of out and down are missing: add them after the reduce-scatter.",
                _result_as(biases=0.0)),
        Symptom("same masks", "All ranks draw the same dropout masks: their heads and positions differ, and so must their "
                              "masks. Use local_dropout.", _result_as(masks=True)),
        Symptom("norms not reduced", "y and dx are right; the LayerNorms' gradients are those of this rank's positions "
                                     "only. All ranks have used these weights: sum over ranks in reduce_gradients().",
                _gradients_as("own")),
        Symptom("norms averaged", "The LayerNorms' gradients are n times too small: all ranks compute parts of one loss, so "
                                  "they are summed.", _gradients_as("mean")),
        Symptom("biases left out", "The biases of out and down are whole on every rank and were used on its positions only, "
                                   "as the LayerNorms' were: reduce their gradients too.", wrong_ranks(_left_out)),
        Symptom("wrong y", "y is not the plain block's, cut along the sequence. In order: norm, GatherLinear with qkv, "
                           "attention, out's product, ScatterSequence, its bias, dropout, and added to x; then the MLP's "
                           "half alike.", lambda look: look.case.inputs[0]["seed"] is None and part("y", PARTS)(look)),
        Symptom("wrong dx", "y is right, dx is not: some function's backward is not its conjugate.", part("dx", PARTS)),
        Symptom("wrong dropout", "Without dropout all is right: with a seed the three are local_dropout with 3·seed, "
                                 "3·seed + 1 and 3·seed + 2, of the attention weights, then of what out and down give.",
                part("y", PARTS)),
        Symptom("wrong gradients", "y and dx are right, gradients of parameters are not: each rank has those of its cut of "
                                   "qkv, out, up and down, and the sum over ranks of all others.", part("gradients", PARTS)),
    ),
    ),
)
