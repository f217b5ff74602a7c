"""How make_tensor_parallel must be done, and how it can fail."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from grader.calling.splitting import BACKWARD, FORWARD, make_gpt
from grader.evidence.evidence import RETURNED
from grader.exercises.technique.splitting import (
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
from grader.judging.demands import bytes_sent, only_calls, results_waited
from grader.judging.exercise import Look, Symptom, Technique
from grader.judging.general import IN_GROUPS_ONLY
from grader.judging.symptoms import group_ignored
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
    return look.same(losses[0], look.right[rank]["losses"][0])


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
            if not all(look.same(found[name], right[name]) for name in names):
                return kind, all(look.same(found[name], n * right[name]) for name in names)
    return None


def _breaks(kinds: tuple[str, ...], n_times: bool) -> Callable[[Look], bool]:
    """Forward is right; on every rank with a wrong gradient the first is one of these, n times right or otherwise wrong."""

    def matches(look: Look) -> bool:
        first = [found for rank in look.working if (found := _break(look, rank))]
        forward = all(look.same(found["start"], right["start"]) and _first_loss_right(look, rank, found["losses"])
                      for rank, found, right in look.pairs())
        return look.evidence.ending == RETURNED and forward and bool(first) and all(
            kind in kinds and times == n_times for kind, times in first)

    return matches


TECHNIQUE = Technique(
    demands=(
        sums_needed(_reduced_bytes),
        only_calls("all_reduce"),
        *part_only("start"),
        work_divided(_forward_flops),
        all_reduces(FORWARD, _all_reduces, _activation_bytes, "not two all-reduces a layer, forward",
                    "two all-reduces a layer, forward"),
        all_reduces(BACKWARD, _all_reduces, _activation_bytes, "not two all-reduces a layer, backward",
                    "two all-reduces a layer, backward"),
        bytes_sent(all_reduced(_reduced_bytes), "four all-reduces of (B, T, D) a layer and step"),
        results_waited(),
    ),
    symptoms=(
        group_ignored(),
        IN_GROUPS_ONLY,
        other_dtype(),
        Symptom("nothing returned", lambda look: all(model is None for _, model, _ in look.pairs())),
        Symptom("too much split", first_wrong("start", _too_much_split)),
        Symptom("other names", first_wrong("start", _other_names)),
        Symptom("not split", first_wrong("start", _whole_somewhere)),
        sizes_differ("heads not divided", "invalid for input of size", "is not divisible", "unflatten"),
        sizes_differ("sizes"),
    ),
    fallbacks=(
        Symptom("wrong part", first_wrong("start", lambda look, rank, start: not _other_names(look, rank, start))),
        Symptom("dx not summed", _breaks(NORMS, False)),
        Symptom("dx summed twice", _breaks(NORMS, True)),
        Symptom("summed both ways", _breaks(SPLIT, True)),
        Symptom("split gradients changed", _breaks(SPLIT, False)),
        *(Symptom("whole biases' gradients", _breaks(WHOLE_BIASES, n_times)) for n_times in (True, False)),
        Symptom("wrong on the way back", first_wrong("losses", _first_loss_right)),
        Symptom("wrong loss", first_wrong("losses")),
        sizes_taken("sizes not checked"),
    ),
)
