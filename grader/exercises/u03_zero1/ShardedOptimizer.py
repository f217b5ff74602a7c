"""ShardedOptimizer: wraps any optimizer class; each rank keeps the state of its own tensors only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from grader.demands import bytes_sent, group_size, only_calls, results_waited
from grader.exercise import Case, Demand, Draw, Exercise, Look, Symptom
from grader.exercises.plain import TOLERANCE, model_of, some_gradients
from grader.exercises.u01_collectives.inputs import each_rank
from grader.exercises.u02_data_parallel.inputs import model_cases, with_batches
from grader.inside.training import OPTIMIZERS, make_optimizer, param_groups, parameters
from grader.inside.zoo import loss_rows
from grader.symptoms import group_ignored, raised, same, unwaited, wrong_ranks
from utils.costs import bytes_sent_per_rank

STEPS, LR = 4, 0.05
STATE_SLACK_BYTES = 64  # a step count a tensor, and such


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(model: str, n: int, seed: int) -> list[dict[str, Any]]:
        kind = {"optimizer": "SGD", "options": {"momentum": 0.9}} if n == 3 else {"optimizer": "AdamW", "options": {}}
        make = with_batches(draw, lambda n: 2, STEPS, lr=LR, two_groups=n in (2, 4), **kind)
        return make(model, n, seed)

    return model_cases(draw, grading, ("mlp", "tied", "frozen", "unused", "gpt"), inputs)


def _train(case: Case, rank: int, factor: float = 1.0, later_lr: float = 0.5, grouped: bool = True) -> dict[str, Any]:
    """One process on the mean gradient times `factor`; from halfway on at the learning rate times `later_lr`."""
    inputs, model = case.inputs[rank], model_of(case, rank)
    groups = param_groups(model, inputs if grouped else {**inputs, "two_groups": False})
    optimizer = OPTIMIZERS[inputs["optimizer"]](groups, lr=inputs["lr"], **inputs["options"])
    for step in range(STEPS):
        if step == STEPS // 2:
            for one in optimizer.param_groups:
                one["lr"] *= later_lr
        optimizer.zero_grad()
        for x, y in zip((xs[step] for xs in case.peers_inputs(rank, "xs")),
                        (ys[step] for ys in case.peers_inputs(rank, "ys")), strict=True):
            (loss_rows(model(x), y).mean() * factor / len(case.members(rank))).backward()
        optimizer.step()
    return parameters(model)


def _gradient_bytes(look: Look, rank: int) -> int:
    return sum(gradient.nbytes for gradient in some_gradients(look.case, rank).values())


def _sent(look: Look, rank: int) -> float:
    return STEPS * bytes_sent_per_rank("all_reduce", _gradient_bytes(look, rank), group_size(look, rank)) + 64 * STEPS


def _whole_state(look: Look, rank: int) -> tuple[int, int]:
    """(bytes of the whole state, of its largest tensor's) in one process."""
    model = model_of(look.case, rank)
    optimizer = make_optimizer(look.case.inputs[rank], [p for p in model.parameters() if p.requires_grad])
    for name, gradient in some_gradients(look.case, rank).items():
        parameter: nn.Parameter = model.get_parameter(name)
        parameter.grad = gradient
    optimizer.step()
    sizes = [sum(value.nbytes for value in state.values() if isinstance(value, torch.Tensor))
             for state in optimizer.state.values()]
    return sum(sizes), max(sizes, default=0)


def _divided(look: Look) -> tuple[bool, str]:
    """Nobody holds more state than a balanced share, give or take half the largest tensor's."""
    for rank in look.active_ranks:
        whole, largest = _whole_state(look, rank)
        memory = look.evidence.memory[rank]
        held = memory.now["optimizer state"] if memory else 0
        allowed = max(largest, whole / group_size(look, rank) + largest / 2) + STATE_SLACK_BYTES
        if held > allowed:
            return False, f"rank {rank} holds {held:,} B of optimizer state, of {whole:,} B in all"
    return True, ""


def _apart(look: Look) -> bool:
    """Every rank's own numbers are right, and others are those of the start or older."""
    for members in {look.case.members(rank) for rank in look.active_ranks}:
        outputs = [look.outputs[rank] for rank in members]
        if not all(isinstance(found, dict) for found in outputs):
            return False
        for name, right in look.expected[members[0]].items():
            if not any(same(found.get(name), right, 1e-6) for found in outputs):
                return False
    return any(not same(found, expected, 1e-6) for _, found, expected in look.pairs())


def _as(**other: Any):
    """The parameters are those that this other way gives."""

    def matches(look: Look) -> bool:
        return wrong_ranks(lambda look, r, found, _: same(found, _train(look.case, r, **other), 1e-6))(look)

    return matches


def _summed(look: Look) -> bool:
    """Only SGD feels the scale of a gradient."""
    by_sgd = look.case.groups is None and look.case.inputs[0]["optimizer"] == "SGD"
    return by_sgd and _as(factor=float(look.case.world_size))(look)


EXERCISE = Exercise(
    id="ShardedOptimizer",
    unit="03_zero1",
    title="Shard any optimizer",
    parameters=("params", "optimizer_class", "group"),
    make_cases=_cases,
    oracle=each_rank(_train),
    adapter="call_optimizer",
    tolerance=TOLERANCE,
    points={"values": 4, "technique": 4},
    demands=(
        only_calls("reduce", "broadcast", "reduce_scatter", "all_gather", hint=(
            "Reduce each gradient to its owner and broadcast its parameters from there (or reduce-scatter and all-gather): "
            "an all-reduce brings every rank gradients that it does not use.")),
        Demand("state not divided", "each rank holds its share of the optimizer's state",
               "The result is right, but ranks hold state for parameters that they do not own: give the wrapped optimizer "
               "only this rank's tensors, and balance them by size.", _divided),
        bytes_sent(_sent, "2(n−1)/n of the gradients' bytes a step",
                   "More was sent than one reduction of the gradients and one copy of the parameters: no more than data "
                   "parallelism sends."),
        results_waited(),
    ),
    symptoms=(
        group_ignored("The ranks of other groups are touched: pass group=group to every call, and group_dst or group_src."),
        unwaited(),
        Symptom("sum for mean", "The owner steps with the sum of the gradients: divide by the number of ranks.", _summed),
        Symptom("parameters not sent", "Each owner updated its tensors, and the other ranks never heard of it: after the "
                                       "step, broadcast every parameter from its owner.", _apart),
        Symptom("groups ignored", "Parameter groups have options of their own (here a learning rate): keep the groups, each "
                                  "with this rank's part of its parameters.",
                _as(grouped=False)),
        raised("param_groups", "Schedulers change the learning rate in optimizer.param_groups: show the wrapped "
               "optimizer's.", "no param_groups"),
        raised("state_dict", "state_dict() and load_state_dict() are missing: those of the wrapped optimizer do, for this "
                             "rank's shard.", "no state_dict"),
        Symptom("rate not heard", "A change of the learning rate in param_groups has no effect: show the wrapped "
                                  "optimizer's own list, not a copy.", _as(later_lr=1.0)),
        raised("NoneType", "A parameter that took no part has grad None: leave it out, on all ranks.", "no gradient"),
    ),
)
