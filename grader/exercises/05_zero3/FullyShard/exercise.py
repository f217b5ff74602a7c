"""FullyShard: wraps any module; each layer is whole only while it is computed with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from grader.calling.sharding import BACKWARD, COMPUTED_IN, FORWARD, HELD
from grader.calling.zoo import DEEP_LAYERS, DEEP_WIDTH
from grader.exercises.shared.cases import each_group
from grader.exercises.shared.one_process import TOLERANCE, model_of, train
from grader.exercises.shared.training_cases import SEEDS, model_cases, with_batches
from grader.exercises.technique.sharding import first_wrong, held, owned_at_most
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, group_size, only_calls, results_waited
from grader.judging.exercise import Case, Demand, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, raised, unwaited, wrong_ranks
from utils.costs.formulas import bytes_sent_per_rank

STEPS, LR = 2, 0.05
ROWS = 2
LAYER_BYTES = 8 * DEEP_WIDTH * (DEEP_WIDTH + 1)
ACTIVATION_BYTES = 8 * ROWS * DEEP_WIDTH * 4 * DEEP_LAYERS  # twice what a layer keeps: its output and its tanh
WHOLE_LAYERS = {FORWARD: 3, BACKWARD: 5}  # this one, the next one; on the way back their gradients too


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    """Half of the cases accumulate, one computes in float32 (by SGD, which does not blow up rounding), one keeps layers."""

    def inputs(model: str, n: int, seed: int) -> list[dict[str, Any]]:
        lower = n == 3 and model == "frozen"
        micro = 2 if n in (2, 3) else 1
        make = with_batches(draw, lambda n: ROWS, STEPS * micro, micro=micro, lr=LR, optimizer="SGD" if lower else "AdamW",
                            compute_dtype="float32" if lower else None, wrapping={"reshard_after_forward": n != 4})
        return [{**one, "seed": seed if r == 0 else draw.integer(0, SEEDS)} for r, one in enumerate(make(model, n, seed))]

    models = ("tied", "deep", "frozen", "unused", "gpt")
    return model_cases(draw, grading, models + ("buffered", "mixed", "empty") * grading, inputs)


def _plain(case: Case, rank: int) -> dict[str, Any]:
    """The parameters at the start, which are the first rank's, and at the end."""
    start = {name: p.detach() for name, p in model_of(case, rank).named_parameters()}
    return {"start": start, "parameters": train(case, rank)["parameters"]}


def _whole_bytes(look: Look, rank: int, computing: bool = False) -> float:
    """All parameters, padded; in the compute dtype or in their own."""
    dtype = look.case.inputs[rank]["compute_dtype"] if computing else None
    parameters = list(model_of(look.case, rank).parameters())
    return sum((p.numel() + group_size(look, rank)) * (getattr(torch, dtype).itemsize if dtype else p.itemsize)
               for p in parameters)


def _sent(look: Look, rank: int) -> float:
    """The start, both looks at the whole parameters, and each pass's gathers and reductions."""
    n, inputs = group_size(look, rank), look.case.inputs[rank]
    own, computing = _whole_bytes(look, rank), _whole_bytes(look, rank, computing=True)
    buffers = sum(b.nbytes for b in model_of(look.case, rank).buffers())
    gathers = 1 + inputs["wrapping"]["reshard_after_forward"]
    passes = len(inputs["xs"]) * (gathers * bytes_sent_per_rank("all_gather", computing, n)
                                  + bytes_sent_per_rank("reduce_scatter", computing, n))
    start = math.ceil(math.log2(n)) * (own + buffers)  # what the root of a tree sends
    return start + 2 * bytes_sent_per_rank("all_gather", own, n) + passes


def _stands_at_most(phase: str, hint: str) -> Demand:
    """Of the deep model, freed after forward, no more than a few layers stand at once."""

    def judge(look: Look) -> tuple[bool, str]:
        for rank in look.working:
            inputs = look.case.inputs[rank]
            if inputs["model"] != "deep" or group_size(look, rank) == 1 or not inputs["wrapping"]["reshard_after_forward"]:
                continue
            shards = DEEP_LAYERS * LAYER_BYTES // group_size(look, rank)  # gradients, once they are there; AdamW's are older
            allowed = WHOLE_LAYERS[phase] * LAYER_BYTES + ACTIVATION_BYTES + shards
            most = max(held(look, rank, HELD, phase), default=0)
            if most > allowed:
                return False, f"rank {rank} held {most:,} B more than between steps, allowed {allowed:,} B"
        return True, ""

    label = f"never more than {WHOLE_LAYERS[phase]} layers' numbers at once, {phase}"
    return Demand(f"whole layers in {phase}", label, hint, judge)


def _computed(look: Look) -> tuple[bool, str]:
    for rank in look.working:
        wanted = f"torch.{look.case.inputs[rank]['compute_dtype'] or 'float64'}"
        for one in (s for s in look.evidence.trace.spans if s.rank == rank and s.name == COMPUTED_IN):
            if one.facts["dtype"] != wanted:
                return False, f"rank {rank} computed in {one.facts['dtype']}, wanted {wanted}"
    return True, ""


def _share(look: Look, rank: int) -> int:
    parameters = list(model_of(look.case, rank).parameters())
    return sum(p.numel() for p in parameters) // group_size(look, rank) + len(parameters)


def _wrong(part: str):
    """The start is right, or not; the parameters at the end are not."""

    def matches(look: Look) -> bool:
        return part == first_wrong(look, ("start", "parameters"))

    return matches


def _untrained(look: Look, rank: int, found: Any, expected: Any) -> bool:
    return isinstance(found, dict) and same(found["start"], expected["start"]) and same(
        found["parameters"], expected["start"])


def _shards_given(look: Look, rank: int, found: Any, expected: Any) -> bool:
    """What full_parameters gives has fewer numbers than the parameters."""
    def count(one: Any) -> int:
        return sum(tensor.numel() for tensor in one.values())

    return isinstance(found, dict) and count(found["start"]) < count(expected["start"])


def _not_accumulated(look: Look) -> bool:
    """Only cases that accumulate are wrong."""
    return look.case.inputs[0]["micro"] > 1 and _wrong("parameters")(look)


def _summed(look: Look, rank: int, found: Any, expected: Any) -> bool:
    """By SGD: every step's change is n times too large in the first step, so the whole lies beyond."""
    if look.case.inputs[rank]["optimizer"] != "SGD" or not isinstance(found, dict):
        return False
    change = {name: expected["parameters"][name] - expected["start"][name] for name in expected["start"]}
    bigger = [bool((found["parameters"][name] - expected["start"][name]).norm() > 1.5 * one.norm())
              for name, one in change.items() if one.any()]
    return bool(bigger) and all(bigger)


EXERCISE = Exercise(
    title="Shard any module",
    parameters=("module", "compute_dtype", "group"),
    make_cases=_cases,
    oracle=each_group(_plain),
    trains=True,
    tolerance=TOLERANCE,
    points={"values": 4, "technique": 4},
    technique=Technique(
        demands=(
        only_calls("all_gather", "reduce_scatter", "broadcast", hint=(
            "All-gather parameters, reduce-scatter gradients (and broadcast the start): those are all the communication. An "
            "all-reduce brings every rank whole gradients.")),
        owned_at_most(_share),
        _stands_at_most(FORWARD, "The result is right, but layers stay whole after they were computed: free each one in a "
                                 "forward hook of its own."),
        _stands_at_most(BACKWARD, "The result is right, but layers or their gradients pile up during the backward pass: as "
                                  "soon as a layer's last gradient is there, reduce them and free the layer; wait for that "
                                  "reduction when the next one starts."),
        Demand("computed in another dtype", "the module computes in compute_dtype",
               "The module must compute in compute_dtype: gather its parameters in it, and cast what goes into a layer.",
               _computed),
        bytes_sent(_sent, "3Ψ a pass (2Ψ where layers are kept after forward)",
                   "Right, but too much was sent: each layer is gathered once in forward, once in backward, and reduced "
                   "once a pass, all in the compute dtype."),
        results_waited(),
    ),
        symptoms=(
        raised("storage of size 0", "Backward found a layer that was freed: gather it again before its backward (a hook on "
               "its output).", "freed too early"),
        group_ignored("The ranks of other groups are touched: pass group=group to every call, and group_src=0 to "
                      "broadcast."),
        unwaited(),
        raised("full_parameters", "full_parameters() is missing: a dictionary name → whole parameter, on every rank.",
               "no full_parameters"),
        raised("finish_gradient_synchronization", "finish_gradient_synchronization() is missing: it waits for what is still "
               "under way after backward.", "no finish"),
        raised("require grad", "A frozen parameter takes no hook: only those with requires_grad have a gradient.",
               "frozen hooked"),
        raised("same dtype", "What goes into a layer must have the compute dtype as well: cast the floating-point arguments "
               "in the forward pre-hook.", "inputs not cast"),
        Symptom("shards returned", "full_parameters() returns this rank's pieces: gather every layer first.",
                wrong_ranks(_shards_given)),
        Symptom("start not shared", "The ranks' modules differed, and each took its piece of its own: broadcast parameters "
                                    "and buffers from the group's rank 0 before you shard.", _wrong("start")),
        Symptom("nothing trained", "The parameters at the end are those of the start: after the backward pass every p.grad "
                                   "must hold the gradient of p's piece.", wrong_ranks(_untrained)),
        Symptom("sum for mean", "The gradients are n times too large: divide by the number of ranks.", wrong_ranks(_summed)),
        Symptom("later parameters wrong", "The start is right, the parameters after training are not: every gradient must "
                                          "be the mean over ranks, and those of several passes add up.",
                _wrong("parameters")),
    ),
    ),
)
