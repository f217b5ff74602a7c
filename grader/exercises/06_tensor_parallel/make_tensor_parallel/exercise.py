"""make_tensor_parallel: a tiny GPT whose blocks are split over the ranks trains as the plain one does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from grader.calling.splitting_gpt import BACKWARD, FORWARD, REFUSED, make_gpt
from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.shared.own_parts import (
    all_reduces,
    not_refused,
    only_all_reduce,
    own_numbers,
    own_storage,
    refused,
    wrong_in,
)
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, group_size, results_waited
from grader.judging.exercise import Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, raised, unwaited
from utils.costs.formulas import bytes_sent_per_rank
from utils.models.tiny import TinyGPT, next_byte_loss

ROWS, LENGTH, STEPS, LR = 2, 5, 2, 0.2
TOLERANCE = 1e-5  # one case in float32
PARTS = ("start", "losses", "gradients", "parameters")
ROW_WISE, COLUMN_WISE = ("out.weight", "down.weight"), ("qkv.weight", "qkv.bias", "up.weight", "up.bias")


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, dim: int, heads: int, layers: int = 1, dtype: str = "float64",
               tied: bool = True) -> list[dict[str, Any]]:
        model = {"length": LENGTH, "dim": dim, "n_layers": layers, "n_heads": heads, "tied": tied}
        batches = [draw.tensor(ROWS, LENGTH + 1, dtype=torch.int64).abs() for _ in range(STEPS)]
        return [{"model": model, "seed": draw.integer(0, 999), "dtype": dtype, "batches": batches, "lr": LR,
                 "sizes": [heads, n]}] * n

    sizes = [(1, 6, 2, 1, "float64", True), (2, 12, 2, 2, "float64", True), (4, 12, 4, 1, "float64", False),
             (3, 18, 6, 1, "float32", True)] + [(2, 12, 4, 2, "float64", False), (2, 20, 10, 1, "float32", True)] * grading
    cases = [Case(f"{ranks(n)}, {layers} × {dim} wide, {heads} heads, {'tied' if tied else 'head of its own'}, {dtype}",
                  tuple(inputs(n, dim, heads, layers, dtype, tied))) for n, dim, heads, layers, dtype, tied in sizes]
    groups = group_case(lambda n: inputs(n, 2 * n, n), "one head each")
    return [*cases, groups, Case("3 ranks, 4 heads: refused", tuple(inputs(3, 12, 4)))]


def cut(name: str, whole: Tensor, rank: int, n: int, by_parts: bool = True) -> Tensor:
    """The part of a parameter that lies on `rank`; of qkv its rows of q, of k and of v. by_parts=False: one piece of all."""
    if name.endswith(ROW_WISE):
        return whole.chunk(n, 1)[rank].clone()
    if not name.endswith(COLUMN_WISE):
        return whole
    pieces = whole.chunk(3) if ".qkv." in name and by_parts else [whole]
    return torch.cat([piece.chunk(n)[rank] for piece in pieces])


def _train(inputs: dict[str, Any], change: Callable[[TinyGPT], Any] = lambda model: None) -> dict[str, Any]:
    """One plain process; change(model) makes it a wrong one."""
    model = make_gpt(inputs)
    change(model)
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


def _part(case: Case, rank: int, **how: Any) -> dict[str, Any]:
    """What the plain process has of this rank's part."""
    inputs, n = case.inputs[rank], len(case.members(rank))
    if inputs["model"]["n_heads"] % n:
        return {REFUSED: inputs["sizes"]}
    whole = _train(inputs)
    for key in ("start", "gradients", "parameters"):
        whole[key] = {name: cut(name, one, case.group_rank(rank), n, **how) for name, one in whole[key].items()}
    return whole


def _activation_bytes(look: Look, rank: int) -> int:
    inputs = look.case.inputs[rank]
    return ROWS * LENGTH * inputs["model"]["dim"] * getattr(torch, inputs["dtype"]).itemsize


def _all_reduces(look: Look, rank: int) -> int:
    return 2 * look.case.inputs[rank]["model"]["n_layers"] * STEPS


def _sent(look: Look, rank: int) -> float:
    total = 0 if refused(look) else 2 * _all_reduces(look, rank) * _activation_bytes(look, rank)
    return bytes_sent_per_rank("all_reduce", total, group_size(look, rank))


def _own(look: Look, rank: int) -> int:
    return sum(one.numel() for one in look.right[rank]["start"].values())


def _own_bytes(look: Look, rank: int) -> int:
    return sum(one.nbytes for one in look.right[rank]["start"].values())


def _when(part: str, test: Callable[[Look, int, Any], bool] = lambda look, rank, found: True) -> Callable[[Look], bool]:
    return wrong_in(part, PARTS, test, TOLERANCE)


def _start_as(look: Look, rank: int, found: Any) -> bool:
    return same(found, _part(look.case, rank, by_parts=False)["start"])


def _whole_somewhere(look: Look, rank: int, found: Any) -> bool:
    """A parameter that should be cut has the plain one's shape."""
    plain = make_gpt(look.case.inputs[rank])
    expected = look.right[rank]["start"]
    return group_size(look, rank) > 1 and any(found[name].shape == p.shape != expected[name].shape
                                              for name, p in plain.named_parameters() if name in found)


def _other_names(look: Look, rank: int, found: Any) -> bool:
    return set(found) != set(look.right[rank]["start"])


def _first_loss_right(look: Look, rank: int, found: Any) -> bool:
    return same(found[0], look.right[rank]["losses"][0], TOLERANCE)


def _loss_as(change: Callable[[TinyGPT, int], Any]) -> Callable[[Look], bool]:
    """The first loss is that of a plain model to which change(model, n) was done."""

    def test(look: Look, rank: int, found: Any) -> bool:
        other = _train(look.case.inputs[rank], lambda model: change(model, group_size(look, rank)))
        return not _first_loss_right(look, rank, found) and same(found[0], other["losses"][0], TOLERANCE)

    return _when("losses", test)


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
    oracle=each_rank(_part),
    trains=True,
    tolerance=TOLERANCE,
    points={"values": 4, "technique": 4},
    technique=Technique(
        demands=(
        only_all_reduce("All-reduces of activations are all that the model needs: neither weights nor gradients are "
                        "communicated."),
        own_numbers(_own, "The result is right, but a rank holds more than its part of the model."),
        own_storage(_own_bytes, "The result is right, but parameters are views that keep whole weights alive."),
        all_reduces(FORWARD, _all_reduces, _activation_bytes, "not two all-reduces a layer, forward", "two all-reduces a "
                                                                                                      "layer, forward",
                    "The result is right, but forward does not take two all-reduces of (B, T, D) a layer: one after out, "
                    "one after down."),
        all_reduces(BACKWARD, _all_reduces, _activation_bytes, "not two all-reduces a layer, backward",
                    "two all-reduces a layer, backward", "The result is right, but backward does not take two all-reduces "
                    "of (B, T, D) a layer: one before qkv, one before up."),
        bytes_sent(_sent, "four all-reduces of (B, T, D) a layer and step", "The result is right, but more is sent than "
                                                                             "four all-reduces a layer and step."),
        results_waited(),
    ),
        symptoms=(
        group_ignored("The ranks of other groups are touched: pass group to every layer."),
        unwaited(),
        raised("invalid for input of size", "The sizes do not fit: qkv's own rows are three pieces, of q, of k and of v, "
               "and n_heads is the number of own heads.", "sizes"),
        raised("is not divisible", "The sizes do not fit: n_heads must become the number of own heads.", "sizes"),
        Symptom("nothing returned", "make_tensor_parallel must return the model.",
                lambda look: all(found is None for _, found, _ in look.pairs())),
        Symptom("other names", "The names of the parameters must stay those of TinyGPT: blocks.0.qkv.weight, "
                               "blocks.0.out.bias and so on, and a tied head stays tied.", _when("start", _other_names)),
        Symptom("not split", "Some layer of a block is whole on every rank: qkv and up are column-parallel, out and down "
                             "row-parallel.", _when("start", _whole_somewhere)),
        Symptom("qkv cut through", "qkv was cut into n pieces of neighbouring rows: rank 0 then has q's rows and none of "
                                   "v's. A rank needs its heads' rows of q, of k and of v.", _when("start", _start_as)),
        Symptom("wrong part", "The parameters at the start are not this rank's part: rows of q, of k, of v for its heads, "
                              "rows of up, columns of out and down; everything else whole.", _when("start")),
        Symptom("heads not divided", "A rank has n_heads / n heads of the old size; here n_heads stayed, so that the heads "
                                     "became smaller.", _loss_as(_smaller_heads)),
        Symptom("bias n times", "The biases of out and down are counted once a rank: add them after the all-reduce.",
                _loss_as(_more_biases)),
        Symptom("dx not summed", "The first loss is right, gradients are not: what qkv and up send back must be summed "
                                 "over ranks (f), or every layer below learns from the own heads only.",
                _when("losses", _first_loss_right)),
        Symptom("wrong loss", "The parts are right, the first loss is not: follow one block's activations by hand, on one "
                              "rank and on two.", _when("losses")),
        Symptom("wrong gradients", "The losses are right, some gradients are not.", _when("gradients")),
        Symptom("wrong at the end", "The gradients are right, the parameters at the end are not.", _when("parameters")),
        not_refused("Heads that n does not divide must be refused, although the widths divide: raise ValueError naming "
                    "both."),
    ),
    ),
)
