"""Zero2: gradients and optimizer state in shards, for any module and any optimizer that works number by number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grader.demands import bytes_sent, group_size, only_calls, results_waited
from grader.exercise import Case, Demand, Draw, Exercise, Look, Symptom
from grader.exercises.plain import TOLERANCE, model_of, some_gradients, train
from grader.exercises.u01_collectives.inputs import each_rank
from grader.exercises.u02_data_parallel.inputs import model_cases, with_batches
from grader.exercises.u04_zero2.demands import never_all_gradients, padded_bytes
from grader.inside.zoo import build
from grader.symptoms import group_ignored, raised, same, unwaited, wrong_ranks
from utils.costs import bytes_sent_per_rank

STEPS, LR = 2, 0.05
STATE_BYTES_A_NUMBER = {"AdamW": 2, "SGD": 1}  # tensors of the parameter's size; SGD with momentum
SLACK_BYTES = 64


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(model: str, n: int, seed: int) -> list[dict[str, Any]]:
        kind = {"optimizer": "SGD", "options": {"momentum": 0.9}} if n == 3 else {"optimizer": "AdamW", "options": {}}
        micro = 2 if n in (2, 3) else 1
        return with_batches(draw, lambda n: 2, STEPS * micro, lr=LR, micro=micro, **kind)(model, n, seed)

    return model_cases(draw, grading, ("mlp", "tied", "frozen", "unused", "gpt"), inputs)


def _sent(look: Look, rank: int) -> float:
    n, total = group_size(look, rank), padded_bytes(look, rank)
    micro = look.case.inputs[rank]["micro"]
    return STEPS * (micro * bytes_sent_per_rank("reduce_scatter", total, n) + bytes_sent_per_rank("all_gather", total, n))


def _divided(look: Look) -> tuple[bool, str]:
    for rank in look.active_ranks:
        memory, n = look.evidence.memory[rank], group_size(look, rank)
        sizes = some_gradients(look.case, rank).values()
        of_each = STATE_BYTES_A_NUMBER[look.case.inputs[rank]["optimizer"]]
        allowed = sum(of_each * -(-g.numel() // n) * g.itemsize + SLACK_BYTES for g in sizes)
        held = memory.now["optimizer state"] if memory else 0
        if held > allowed:
            return False, f"rank {rank} holds {held:,} B of optimizer state, allowed {allowed:,} B"
    return True, ""


def _as(other) -> Any:
    return wrong_ranks(lambda look, r, found, _: same(found, other(look, r), 1e-6))


def _start(look: Look, rank: int) -> dict[str, Any]:
    inputs = look.case.inputs[rank]
    return dict(build(inputs["model"], inputs["seed"]).named_parameters())


def _drifted(look: Look) -> bool:
    """Ranks that trained together hold different parameters."""
    groups = {look.case.members(rank) for rank in look.active_ranks}
    returned = all(isinstance(found, dict) for _, found, _ in look.pairs())
    return returned and any(not same(look.outputs[one], look.outputs[members[0]], 1e-6)
                            for members in groups for one in members)


EXERCISE = Exercise(
    id="Zero2",
    unit="04_zero2",
    title="Train with gradients in shards",
    parameters=("module", "optimizer_class", "group"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: train(case, r)["parameters"]),
    adapter="call_zero2",
    tolerance=TOLERANCE,
    points={"values": 4, "technique": 4},
    demands=(
        only_calls("reduce_scatter", "all_gather", hint=(
            "Reduce-scatter gradients, all-gather parameters: those two are all the communication.")),
        never_all_gradients(),
        Demand("state not divided", "each rank holds its shards' optimizer state",
               "The result is right, but ranks hold optimizer state for whole parameters: give the optimizer shards.",
               _divided),
        bytes_sent(_sent, "k reduce-scatters and one all-gather of Ψ a step",
                   "Right, but more was sent: parameters are gathered once a step, gradients reduced once a backward pass."),
        results_waited(),
    ),
    symptoms=(
        group_ignored("The ranks of other groups are touched: pass group=group to every call."),
        unwaited(),
        Symptom("nothing trained", "The parameters are those of the start: after the optimizer's step on the shards, "
                                   "all-gather them into the module's parameters.", _as(_start)),
        Symptom("ranks drift apart", "The ranks' models differ from one another: every rank must gather all shards, in rank "
                                     "order, into p.data.", _drifted),
        raised("size", "The sizes do not fit: pad each flat tensor with zeros to n pieces of ⌈numel/n⌉.", "not padded"),
        raised("zero_grad", "zero_grad() is missing: it forgets the gradient shards.", "no zero_grad"),
        Symptom("gradients pile up", "Right after the first step, wrong later: zero_grad() must forget the gradient shards, "
                                     "and the next step begins from none.",
                wrong_ranks(lambda look, r, found, _: model_of(look.case, r) is not None)),
    ),
)
