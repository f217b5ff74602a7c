"""ShardedOptimizer: wraps any optimizer class; each rank keeps the state of its own tensors only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from grader.calling.training import LEFT, OPTIMIZERS, param_groups, parameters
from grader.calling.zoo import loss_rows
from grader.evidence.evidence import RAISED, RETURNED
from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.one_process import TOLERANCE, model_of, some_gradients
from grader.exercises.shared.training_cases import SEEDS, model_cases, with_batches
from grader.exercises.shared.zero1_demands import balanced_share, check_bytes, something_sharded, state_divided
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, group_size, only_calls, results_waited
from grader.judging.exercise import Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, raised, unwaited, wrong_ranks
from utils.costs.formulas import bytes_sent_per_rank

STEPS, LR = 4, 0.05
HALF = STEPS // 2  # from here on another optimizer, with the first one's state
RATES = (1.0, 1.0, 0.5, 0.25)  # of LR, step by step: grader.calling.training.train_on


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(model: str, n: int, seed: int) -> list[dict[str, Any]]:
        by_sgd = n == 3 or model == "mixed"  # AdamW makes rounding errors of float32 as large as a step
        kind = {"optimizer": "SGD", "options": {"momentum": 0.9}} if by_sgd else {"optimizer": "AdamW", "options": {}}
        make = with_batches(draw, lambda n: 2, STEPS, lr=LR, two_groups=n in (2, 4), **kind)
        return make(model, n, seed)

    cases = model_cases(draw, grading, ("mlp", "tied", "frozen", "unused", "gpt", "mixed"), inputs)
    few = Case("4 ranks, 2 tensors", tuple(inputs("linear", 4, draw.integer(0, SEEDS))))
    return [*cases[:-1], few, cases[-1]]


def _train(case: Case, rank: int, factor: float = 1.0, rates: Sequence[float] = RATES, grouped: bool = True,
           state_kept: bool = True) -> dict[str, Any]:
    """One process on the mean gradient times `factor`."""
    inputs, model = case.inputs[rank], model_of(case, rank)
    groups = param_groups(model, inputs if grouped else {**inputs, "two_groups": False})

    def make():
        return OPTIMIZERS[inputs["optimizer"]](groups, lr=inputs["lr"], **inputs["options"])

    optimizer, own = make(), None
    first_rates = [one["lr"] for one in optimizer.param_groups]
    for step in range(STEPS):
        if step == HALF and not state_kept:
            optimizer = make()
        for one, lr in zip(optimizer.param_groups, first_rates, strict=True):
            one["lr"] = lr * rates[step]
        optimizer.zero_grad()
        for member, xs, ys in zip(case.members(rank), case.peers_inputs(rank, "xs"), case.peers_inputs(rank, "ys"),
                                  strict=True):
            loss = loss_rows(model(xs[step]), ys[step]).mean()
            (loss * factor / len(case.members(rank))).backward()
            own = loss.detach() if member == rank else own
        optimizer.step()
    return {"parameters": parameters(model), "loss": own}


def _sent(look: Look, rank: int) -> float:
    total = sum(gradient.nbytes for gradient in some_gradients(look.case, rank).values())
    return STEPS * bytes_sent_per_rank("all_reduce", total, group_size(look, rank)) + check_bytes(look, rank, times=2)


def _as(**other: Any) -> Callable[[Look], bool]:
    """The parameters are those that this other way gives, and not the right ones."""

    def test(look: Look, rank: int, found: Any, expected: Any) -> bool:
        instead = _train(look.case, rank, **other)["parameters"]
        return same(found["parameters"], instead) and not same(instead, expected["parameters"])

    return wrong_ranks(test)


def _summed(look: Look) -> bool:
    """Only SGD feels the scale of a gradient."""
    by_sgd = look.case.groups is None and look.case.inputs[0]["optimizer"] == "SGD"
    return by_sgd and _as(factor=float(look.case.world_size))(look)


def _unmade(look: Look) -> bool:
    """Optimizer.__init__ was not called, or not with the options."""
    texts = ("attribute 'param_groups'", "_optimizer_step_pre_hooks", "KeyError: 'lr'")
    return look.evidence.ending == RAISED and any(text in look.evidence.error for text in texts)


NEVER, UNTIL_LOADED = (1.0,) * STEPS, (1.0, 1.0, 0.5, 0.5)  # when the scheduler was heard


def _rate_unheard(look: Look) -> bool:
    lost = look.evidence.ending == RAISED and "initial_lr" in look.evidence.error  # a scheduler wrote it into a copy
    return lost or any(_as(rates=rates)(look) for rates in (NEVER, UNTIL_LOADED))


def _state_lost(look: Look) -> bool:
    return any(_as(state_kept=False, rates=rates)(look) for rates in (RATES, NEVER, UNTIL_LOADED))


def _without(*ops: str) -> Callable[[Look], bool]:
    """Of these operations there is none in any step, where there are several ranks."""

    def matches(look: Look) -> bool:
        steps = [s for s in look.evidence.trace.spans if s.name == "step"]
        calls = [c for c in look.evidence.trace.calls if c.op in ops and any(
            s.rank == c.rank and s.start_s <= c.start_s <= s.end_s for s in steps)]
        several = any(group_size(look, rank) > 1 for rank in look.working)
        return look.evidence.ending == RETURNED and several and not calls

    return matches


def _drifted(look: Look) -> bool:
    """Ranks that trained together hold different parameters."""
    groups = {look.case.members(rank) for rank in look.working}
    return any(not same(look.outputs[one]["parameters"], look.outputs[members[0]]["parameters"])
               for members in groups for one in members)


def _closure_ignored(look: Look) -> bool:
    nothing = any(isinstance(found, dict) and found["loss"] is None for _, found, _ in look.pairs())
    no_grad = look.evidence.ending == RAISED and any(
        text in look.evidence.error for text in ("does not require grad", "unexpected keyword", "positional argument"))
    return nothing or no_grad


EXERCISE = Exercise(
    title="Shard any optimizer",
    parameters=("params", "optimizer_class", "group"),
    make_cases=_cases,
    oracle=each_rank(_train),
    trains=True,
    tolerance=TOLERANCE,
    points={"values": 4, "technique": 4},
    technique=Technique(
        demands=(
        something_sharded(),
        only_calls("reduce", "broadcast", "reduce_scatter", "all_gather", hint=(
            "Reduce each gradient to its owner and broadcast its parameters from there (or reduce-scatter and all-gather): "
            "an all-reduce brings every rank gradients that it does not use.")),
        state_divided(balanced_share, "The result is right, but some ranks hold much more state than others: balance the "
                                      "tensors by size, those of all groups together."),
        bytes_sent(_sent, "2(n−1)/n of the gradients' bytes a step",
                   "More was sent than one reduction of the gradients and one copy of the parameters: no more than data "
                   "parallelism sends."),
        results_waited(),
    ),
        symptoms=(
        group_ignored("The ranks of other groups are touched: pass group=group to every call, and group_dst or group_src."),
        unwaited(),
        raised("is not an Optimizer", "A scheduler takes nothing but an Optimizer: write class ShardedOptimizer("
               "torch.optim.Optimizer), as the skeleton has it.", "not an optimizer"),
        Symptom("super forgotten", "Optimizer's own constructor makes self.param_groups, with the options in each: call "
                                   "super().__init__(params, options).", _unmade),
        Symptom("closure ignored", "step(closure) calls the closure, which computes loss and gradients, before it reduces "
                                   "them, and returns the closure's loss. (Gradients must be on meanwhile.)",
                _closure_ignored),
        raised("NoneType", "A parameter that took no part has grad None: leave it out, on all ranks.", "no gradient"),
        Symptom("gradients not reduced", "Each owner steps with its own gradient: bring it the sum over all ranks first.",
                _without("reduce", "reduce_scatter", "all_reduce")),
        Symptom("parameters not sent", "The ranks' parameters differ: each owner updated its tensors, and the others never "
                                       "heard of it. After the step, broadcast every parameter from its owner.", _drifted),
        Symptom("gradients left", "After zero_grad() some gradients are still there, and the next ones are added to them: "
                                  "it must reach the parameters of all ranks, not only one's own.",
                lambda look: any(s.name == LEFT and s.facts["count"] for s in look.evidence.trace.spans)),
        Symptom("sum for mean", "The owner steps with the sum of the gradients: divide by the number of ranks.", _summed),
        Symptom("groups ignored", "Parameter groups have options of their own (here a learning rate): keep the groups, each "
                                  "with this rank's part of its parameters.", _as(grouped=False)),
        Symptom("state lost", "After load_state_dict() the training begins as if there had been no step before: the state "
                              "is the wrapped optimizer's, so save and load that one.", _state_lost),
        Symptom("rate not heard", "A scheduler changes \"lr\" in self.param_groups, and the wrapped optimizer has groups of "
                                  "its own: copy the options over before it steps (and back after load_state_dict()).",
                _rate_unheard),
    ),
    ),
)
