"""How make_tensor_parallel must be done, and how it can fail."""

from typing import Any

import torch
from torch import Tensor

from grader.calling.splitting import BACKWARD, FORWARD, make_gpt
from grader.exercises.technique.splitting import (
    TOLERANCE,
    all_reduced,
    all_reduces,
    first_wrong,
    only_in_groups,
    other_dtype,
    part_only,
    sizes_differ,
    sizes_taken,
)
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, only_calls, results_waited
from grader.judging.exercise import Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, unwaited
from utils.models.shards import cut_dim


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


TECHNIQUE = Technique(
    demands=(
        only_calls("all_reduce", hint=(
            "All-reduces of activations are all that the model needs: neither weights nor gradients are communicated.")),
        *part_only("start", "The result is right, but a rank holds more than its part of the model.",
                   "The result is right, but parameters are views that keep whole weights alive."),
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
        only_in_groups(),
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
                     "and take these parts.", "sizes"),
    ),
    fallbacks=(
        Symptom("wrong part", "The parameters at the start are not this rank's part: rows of q, of k, of v for its heads, "
                              "rows of up, columns of out and down; everything else whole.",
                first_wrong("start", lambda look, rank, start: not _other_names(look, rank, start))),
        Symptom("dx not summed", "The first loss is right, gradients are not: what qkv and up send back must be summed "
                                 "over ranks (f), or every layer below learns from the own heads only.",
                first_wrong("losses", _first_loss_right)),
        Symptom("wrong loss", "The parts are right, the first loss is not: follow one block's activations by hand, on one "
                              "rank and on two.", first_wrong("losses")),
        Symptom("wrong gradients", "The losses are right, some gradients are not.", first_wrong("gradients")),
        Symptom("wrong at the end", "The gradients are right, the parameters at the end are not.",
                first_wrong("parameters")),
        sizes_taken("sizes not checked", "Heads that n does not divide must be refused, although the widths divide: raise "
                                         "ValueError naming both."),
    ),
)
