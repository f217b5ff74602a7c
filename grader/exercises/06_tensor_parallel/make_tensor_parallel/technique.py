"""How make_tensor_parallel must be done, and how it can fail."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from grader.calling.splitting import BACKWARD, FORWARD, make_gpt
from grader.evidence.evidence import RETURNED
from grader.exercises.technique.splitting import (
    TOLERANCE,
    all_reduced,
    all_reduces,
    first_wrong,
    other_dtype,
    part_only,
    sizes_differ,
    sizes_taken,
    sums_needed,
    work_divided,
)
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, only_calls, results_waited
from grader.judging.exercise import Look, Symptom, Technique
from grader.judging.general import IN_GROUPS_ONLY
from grader.judging.symptoms import group_ignored, unwaited
from utils.models.shards import cut_dim
from utils.models.tiny import VOCABULARY


def _activation_bytes(look: Look, rank: int) -> int:
    inputs = look.case.inputs[rank]
    rows, length = inputs["batches"][0].shape
    return rows * (length - 1) * inputs["model"]["dim"] * getattr(torch, inputs["dtype"]).itemsize


def _all_reduces(look: Look, rank: int) -> int:
    """In one direction, of all layers and steps."""
    inputs = look.case.inputs[rank]
    return 2 * inputs["model"]["n_layers"] * len(inputs["batches"])


def _reduced_bytes(look: Look, rank: int) -> int:
    """In both directions."""
    return 2 * _all_reduces(look, rank) * _activation_bytes(look, rank)


def _forward_flops(look: Look, rank: int) -> list[float]:
    """Of each step: the blocks' 12·dim² weights and attention; the head as if each rank had another n-th of it."""
    inputs, n = look.case.inputs[rank], look.case.group_size(rank)
    dim, layers, steps = inputs["model"]["dim"], inputs["model"]["n_layers"], []
    for rows, length in (batch.shape for batch in inputs["batches"]):
        tokens = rows * (length - 1)
        steps.append(layers * (24.0 * tokens * dim * dim + 4.0 * tokens * (length - 1) * dim)
                     + n * 2.0 * tokens * dim * VOCABULARY)
    return steps


def _other_names(look: Look, rank: int, start: dict[str, Tensor]) -> bool:
    return set(start) != set(look.right[rank]["start"])


def _whole_somewhere(look: Look, rank: int, start: dict[str, Tensor]) -> bool:
    """A parameter that should be cut has the plain one's shape."""
    plain, right = make_gpt(look.case.inputs[rank]), look.right[rank]["start"]
    return look.case.group_size(rank) > 1 and any(start[name].shape == p.shape != right[name].shape
                                              for name, p in plain.named_parameters() if name in start)


def _too_much_split(look: Look, rank: int, start: dict[str, Tensor]) -> bool:
    """What should be whole is not."""
    plain = make_gpt(look.case.inputs[rank])
    return any(cut_dim(name) is None and p.shape != plain.get_parameter(name).shape for name, p in start.items())


def _first_loss_right(look: Look, rank: int, losses: list[Any]) -> bool:
    return same(losses[0], look.right[rank]["losses"][0], TOLERANCE)


# ── where backward first goes wrong ──

SPLIT, WHOLE_BIASES = ("down.weight", "up", "out.weight", "qkv"), ("down.bias", "out.bias")
NORMS = ("mlp_norm", "attention_norm")
WAY_BACK = ("down.bias", "down.weight", "up", "mlp_norm", "out.bias", "out.weight", "qkv", "attention_norm")


def _break(look: Look, rank: int) -> tuple[str, bool] | None:
    """The first of WAY_BACK whose gradient is wrong, from the last block back; and is it n times the right one?"""
    found, right, n = look.outputs[rank]["gradients"], look.right[rank]["gradients"], look.case.group_size(rank)
    for block in reversed(range(look.case.inputs[rank]["model"]["n_layers"])):
        for kind in WAY_BACK:
            names = [name for name in right if name.startswith(f"blocks.{block}.{kind}")]
            if not all(same(found[name], right[name], TOLERANCE) for name in names):
                return kind, all(same(found[name], n * right[name], TOLERANCE) for name in names)
    return None


def _breaks(kinds: tuple[str, ...], n_times: bool) -> Callable[[Look], bool]:
    """Forward is right; on every rank with a wrong gradient the first is one of these, n times right or otherwise wrong."""

    def matches(look: Look) -> bool:
        first = [found for rank in look.working if (found := _break(look, rank))]
        forward = all(same(found["start"], right["start"], TOLERANCE) and _first_loss_right(look, rank, found["losses"])
                      for rank, found, right in look.pairs())
        return look.evidence.ending == RETURNED and forward and bool(first) and all(
            kind in kinds and times == n_times for kind, times in first)

    return matches


def _wrong_back(id: str, hint: str, kinds: tuple[str, ...], n_times: bool) -> Symptom:
    return Symptom(id, f"The first loss is right, so forward is. {hint}", _breaks(kinds, n_times))


TECHNIQUE = Technique(
    demands=(
        sums_needed(_reduced_bytes),
        only_calls("all_reduce", hint=(
            "All-reduces of activations are all that the model needs: neither weights nor gradients are communicated.")),
        *part_only("start", "The result is right, but a rank holds more than its part of the model.",
                   "The result is right, but parameters are views that keep whole weights alive."),
        work_divided(_forward_flops),
        all_reduces(FORWARD, _all_reduces, _activation_bytes,
                    "not two all-reduces a layer, forward", "two all-reduces a layer, forward",
                    "The result is right, but forward does not take two all-reduces of (B, T, D) a layer: one after out, "
                    "one after down."),
        all_reduces(BACKWARD, _all_reduces, _activation_bytes,
                    "not two all-reduces a layer, backward", "two all-reduces a layer, backward",
                    "The result is right, but backward does not take two all-reduces of (B, T, D) a layer: one before qkv, "
                    "one before up."),
        bytes_sent(all_reduced(_reduced_bytes), "four all-reduces of (B, T, D) a layer and step",
                   "The result is right, but more is sent than four all-reduces a layer and step."),
        results_waited(),
    ),
    symptoms=(
        group_ignored("The ranks of other groups are touched: pass group to every layer."),
        IN_GROUPS_ONLY,
        unwaited(),
        other_dtype(),
        Symptom("nothing returned", "make_tensor_parallel must return the model.",
                lambda look: all(model is None for _, model, _ in look.pairs())),
        Symptom("too much split", "What stands outside the blocks stays whole, and so do norms and the biases of out and "
                                  "down: only qkv, up, out and down are cut.", first_wrong("start", _too_much_split)),
        Symptom("other names", "The names of the parameters must stay those of TinyGPT: blocks.0.qkv.weight, "
                               "blocks.0.out.bias and so on, and a tied head stays tied.",
                first_wrong("start", _other_names)),
        Symptom("not split", "Some layer of a block is whole on every rank: qkv and up are column-parallel, out and down "
                             "row-parallel.", first_wrong("start", _whole_somewhere)),
        sizes_differ("The sizes do not fit: n_heads must become the number of own heads.", "heads not divided",
                     "invalid for input of size", "is not divisible", "unflatten"),
        sizes_differ("The sizes do not fit: qkv and up are column-parallel and give own parts, out and down row-parallel "
                     "and take these parts. All else stays whole.", "sizes"),
    ),
    fallbacks=(
        Symptom("wrong part", "The parameters at the start are not this rank's part: its heads' rows of q, then of k, "
                              "then of v (not head by head), rows of up, columns of out and down; everything else whole.",
                first_wrong("start", lambda look, rank, start: not _other_names(look, rank, start))),
        _wrong_back("dx not summed", (
            "Gradients are right as far back as up's or qkv's, and wrong from the norm in front of it on: what up and qkv "
            "send back must be summed over ranks (f), or every layer below learns from a part only."), NORMS, False),
        _wrong_back("dx summed twice", (
            "On the way back the first wrong gradient is that of a norm, n times too large: what up or qkv sends back is "
            "summed over ranks twice. One f in front of each is enough."), NORMS, True),
        _wrong_back("summed both ways", (
            "On the way back the first wrong gradient is that of down's or out's weight, n times too large: g sums in "
            "backward as well. All ranks have the same loss, so g hands dy on as it is."), SPLIT, True),
        _wrong_back("split gradients changed", (
            "On the way back the first wrong gradient is that of a split weight: each rank has other rows or columns, so it "
            "is what the rank has computed, neither summed nor averaged over ranks."), SPLIT, False),
        *(_wrong_back("whole biases' gradients", (
            "On the way back the first wrong gradient is that of down's or out's bias. Bias and gradient are whole on every "
            "rank: add the bias once, after g, and sum nothing."), WHOLE_BIASES, n_times) for n_times in (True, False)),
        Symptom("wrong on the way back", (
            "The first loss is right, so forward is; gradients are not. Compare them with a plain model's, from the last "
            "block's down back to the embedding: which is the first that differs?"),
            first_wrong("losses", _first_loss_right)),
        Symptom("wrong loss", "The parts are right, the first loss is not: follow one block's activations by hand, on one "
                              "rank and on two.", first_wrong("losses")),
        Symptom("wrong gradients", "The losses are right, a gradient is not; the table names it. A parameter that is whole "
                                   "on every rank has the plain model's gradient, one that is split its part of it.",
                first_wrong("gradients")),
        Symptom("wrong at the end", "The gradients are right, the parameters at the end are not.",
                first_wrong("parameters")),
        sizes_taken("sizes not checked", "Heads that n does not divide must be refused, although the widths divide: raise "
                                         "ValueError naming both."),
    ),
)
