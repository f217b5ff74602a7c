"""Zero2: gradients and optimizer state in shards, for any module and any optimizer that works number by number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from grader.calling.training import parameters
from grader.evidence.evidence import RAISED
from grader.exercises.shared.cases import each_group
from grader.exercises.shared.one_process import TOLERANCE, model_of, some_gradients, train
from grader.exercises.shared.training_cases import with_batches
from grader.exercises.shared.zero1_demands import (
    STATE_SLACK_BYTES,
    check_bytes,
    other_type,
    something_sharded,
    state_divided,
)
from grader.exercises.shared.zero2_demands import misfit, never_all_gradients, odd_models, padded_bytes
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, group_size, only_calls, results_waited
from grader.judging.exercise import Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, raised, unwaited, wrong_ranks
from utils.costs.formulas import bytes_sent_per_rank

STEPS, LR, GAMMA = 2, 0.05, 0.5
STATE_TENSORS = {"AdamW": 2, "SGD": 1}  # of the parameter's size; SGD with momentum


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(model: str, n: int, seed: int) -> list[dict[str, Any]]:
        by_sgd = n == 3 or model == "mixed"  # AdamW makes rounding errors of float32 as large as a step
        kind = {"optimizer": "SGD", "options": {"momentum": 0.9}} if by_sgd else {"optimizer": "AdamW", "options": {}}
        micro = 2 if n in (2, 3) else 1
        return with_batches(draw, lambda n: 2, STEPS * micro, lr=LR, gamma=GAMMA, micro=micro, **kind)(model, n, seed)

    return odd_models(draw, grading, inputs)


def _sent(look: Look, rank: int) -> float:
    n, total = group_size(look, rank), padded_bytes(look, rank)
    reduced = look.case.inputs[rank]["micro"] * bytes_sent_per_rank("reduce_scatter", total, n)
    return STEPS * (reduced + bytes_sent_per_rank("all_gather", total, n)) + check_bytes(look, rank)


def _share(look: Look, rank: int) -> float:
    """State of one piece of each tensor."""
    n, of_each = group_size(look, rank), STATE_TENSORS[look.case.inputs[rank]["optimizer"]]
    return sum(of_each * -(-g.numel() // n) * g.itemsize + STATE_SLACK_BYTES
               for g in some_gradients(look.case, rank).values())


def _as(other: Callable[[Look, int], dict[str, Any]]) -> Callable[[Look], bool]:
    """The parameters are those that another way gives, and not the right ones."""

    def test(look: Look, rank: int, found: Any, expected: Any) -> bool:
        instead = other(look, rank)
        return same(found, instead) and not same(instead, expected)

    return wrong_ranks(test)


def _trained(**other: Any) -> Callable[[Look], bool]:
    return _as(lambda look, rank: train(look.case, rank, **other)["parameters"])


def _summed(look: Look) -> bool:
    """Only SGD feels the scale of a gradient."""
    by_sgd = look.case.groups is None and look.case.inputs[0]["optimizer"] == "SGD"
    return by_sgd and _trained(factor=float(look.case.world_size))(look)


def _drifted(look: Look) -> bool:
    """Ranks that trained together hold different parameters."""
    groups = {look.case.members(rank) for rank in look.working}
    returned = all(isinstance(found, dict) for _, found, _ in look.pairs())
    return returned and any(not same(look.outputs[one], look.outputs[members[0]]) for members in groups for one in members)


EXERCISE = Exercise(
    title="Train with gradients in shards",
    parameters=("module", "optimizer_class", "group"),
    make_cases=_cases,
    oracle=each_group(lambda case, r: train(case, r)["parameters"]),
    trains=True,
    tolerance=TOLERANCE,
    points={"values": 4, "technique": 4},
    technique=Technique(
        demands=(
        something_sharded(),
        only_calls("reduce_scatter", "all_gather", "broadcast", hint=(
            "Reduce-scatter each gradient: an all-reduce brings every rank the whole of it, of which it uses one piece. The "
            "second half of the traffic is the all-gather of the updated parameters.")),
        never_all_gradients(),
        state_divided(_share, "The result is right, but ranks hold optimizer state for more than their shards: give the "
                              "optimizer one piece of each parameter."),
        bytes_sent(_sent, "k reduce-scatters and one all-gather of Ψ a step",
                   "Right, but more was sent: parameters are gathered once a step, gradients reduced once a backward pass."),
        results_waited(),
    ),
        symptoms=(
        group_ignored("The ranks of other groups are touched: pass group=group to every call."),
        unwaited(),
        raised("attribute 'optimizer'", "A scheduler needs the optimizer that steps on the shards: keep it as "
                                        "self.optimizer.", "no optimizer"),
        Symptom("nothing trained", "The parameters are those of the start: after the optimizer's step on the shards, "
                                   "all-gather them into the module's parameters.",
                _as(lambda look, r: parameters(model_of(look.case, r)))),
        Symptom("ranks drift apart", "The ranks' models differ from one another: every rank must gather all shards, in rank "
                                     "order, into p.data.", _drifted),
        other_type(),
        misfit(),
        Symptom("no gradient", "A parameter that took no part has no gradient in this step: leave it, and its shard, alone.",
                lambda look: look.evidence.ending == RAISED and any(
                    text in look.evidence.error for text in ("KeyError", "NoneType"))),
        raised("zero_grad", "zero_grad() is missing: it forgets the gradient shards.", "no zero_grad"),
        Symptom("sum for mean", "The shards are updated with the sum of the gradients: divide by the number of ranks.",
                _summed),
        Symptom("last pass only", "Of several backward passes only the last one counts: add to the gradient that the shard "
                                  "has.", _trained(last_only=True)),
        Symptom("gradients pile up", "Right after the first step, wrong later: zero_grad() must forget the gradient shards, "
                                     "and the next step begins from none.", _trained(forget=False)),
    ),
    ),
)
