"""How ShardedOptimizer must work, and how it can fail."""

from collections.abc import Sequence
from dataclasses import replace

from grader.calling.weighing import END
from grader.evidence.evidence import RAISED, RETURNED
from grader.exercises.technique import zero
from grader.exercises.technique.models import reduced
from grader.exercises.technique.rank_by_rank import on_each_rank, spans_if_any
from grader.exercises.technique.sharding import by_collectives
from grader.exercises.technique.training import instead
from grader.exercises.technique.weights import models, weighs_at_most
from grader.judging.demands import bytes_sent, only_calls
from grader.judging.exercise import Demand, Look, Symptom
from grader.judging.symptoms import deadlocked, raised
from utils.costs.formulas import bytes_sent_per_rank
from utils.trace.trace import Span

from .call import CLOSURE, LEFT, STEP

RATE_NOT_HEARD = ("A scheduler changes \"lr\" in self.param_groups, and the wrapped optimizer has groups of its own: copy "
                  "the options over before it steps (and back after load_state_dict()).")
NO_DEFAULTS = ("Schedulers such as OneCycleLR look into optimizer.defaults, which lacks options of the wrapped optimizer "
               "(momentum, betas, …): set self.defaults to the wrapped one's.")
NO_OPTIONS = ("Every option counts, not \"lr\" alone: OneCycleLR changes momentum or betas in self.param_groups, which "
              "lacks them. Copy all options of the wrapped optimizer into self.param_groups once it is made, group by "
              "group, and all of them back before it steps.")
GROUPS = ("Parameter groups have options of their own (here a learning rate): keep the groups, each with this rank's part "
          "of its parameters, and hand the options on group by group.")


def _balanced_share(look: Look, rank: int) -> float:
    """By whole tensors: an equal share and half the largest tensor's state, or that tensor's alone."""
    return _balanced(zero.whole_state(look, rank), look.case.group_size(rank)) + zero.STATE_SLACK_BYTES


def _balanced(sizes: Sequence[int], n: int) -> float:
    """No more than what one of n owners has of tensors of these sizes: a share and half the largest one, or that one."""
    largest = max(sizes, default=0)
    return max(largest, sum(sizes) / n + largest / 2)


def _sent(look: Look, rank: int) -> float:
    n, gradients = look.case.group_size(rank), list(reduced(look.case, rank).values())
    total = sum(gradient.nbytes for gradient in gradients)
    if look.evidence.trace.of(rank, "reduce_scatter"):  # of rows, one an owner and dtype, as long as the longest
        longest = _balanced([gradient.nbytes for gradient in gradients], n)
        dtypes = {gradient.dtype for gradient in gradients}
        total = sum(min(longest, sum(g.nbytes for g in gradients if g.dtype == dtype)) for dtype in dtypes) * n
    averaged = bytes_sent_per_rank("all_reduce", total, n)
    return len(look.case.inputs[rank]["xs"]) * averaged + zero.check_bytes(look, rank, times=3)


def _taken(look: Look, rank: int) -> str:
    return zero.wrongly_taken(look, rank) if look.case.inputs[rank]["model"] == "linear" else ""


def _reductions(look: Look, rank: int, span: Span) -> list[float]:
    """When a rank began to reduce something, during one of its spans."""
    return [call.start_s for call in look.evidence.trace.of(rank) if span.start_s <= call.start_s <= span.end_s
            and call.op in ("reduce", "reduce_scatter", "all_reduce")]


def _never_reduced(look: Look) -> bool:
    """Nothing is reduced in any step, where there are several ranks."""
    several = any(look.case.group_size(rank) > 1 for rank in look.working)
    return look.evidence.ending == RETURNED and several and not any(
        _reductions(look, rank, step) for rank in look.working for step in spans_if_any(look, rank, STEP))


def _old_plan(look: Look) -> bool:
    """The last step reduces no more than the one before it, in which a layer rested, and which was its optimizer's first."""
    if not zero.has_rests(look) or not NOT_SENT.matches(look):
        return False
    steps = [[len(_reductions(look, rank, step)) for step in spans_if_any(look, rank, STEP)] for rank in look.working]
    return all(first > resting == last for first, *_, resting, last in steps)


def _closures(look: Look) -> list[tuple[int, Span, list[Span]]]:
    """Rank, step, and the closure's runs in it, of the steps that have any."""
    steps = [(rank, step) for rank in look.working for step in spans_if_any(look, rank, STEP)]
    found = [(rank, step, [run for run in spans_if_any(look, rank, CLOSURE) if step.start_s <= run.start_s <= step.end_s])
             for rank, step in steps]
    return [(rank, step, runs) for rank, step, runs in found if runs]


def _reduced_before_closure(look: Look) -> bool:
    """Steps reduce gradients, but none that a closure has just computed."""
    if look.evidence.ending != RETURNED or _never_reduced(look):
        return False
    called = _closures(look)
    return bool(called) and not any(began_s > runs[0].end_s for rank, step, runs in called
                                    for began_s in _reductions(look, rank, step))


def _lacks_options(look: Look) -> bool:
    """A scheduler finds a group without the options of the wrapped optimizer."""
    return look.evidence.ending == RAISED and any(text in look.evidence.error for text in ("KeyError: 'betas'",
                                                                                           "KeyError: 'momentum'"))


def _either(symptom: Symptom, other: Symptom) -> Symptom:
    return replace(symptom, matches=lambda look: symptom.matches(look) or other.matches(look))


def _closure_ignored(look: Look) -> bool:
    if look.evidence.ending == RAISED:
        texts = ("does not require grad", "unexpected keyword", "positional argument")
        return any(text in look.evidence.error for text in texts)
    return any(result["loss"] is None for _, result, _ in look.pairs())


DRIFTED = ("The ranks' parameters differ: each owner updated its tensors, and the others never heard of it. After the step, "
           "broadcast every parameter from its owner.")
CLOSURE_LATE = ("The closure runs after the reduction, so each owner steps with its own rank's new gradient: call the "
                "closure first of all, and reduce what it computed. The wrapped optimizer's step() gets no closure.")
NOT_SENT = zero.drifted("parameters not sent", DRIFTED, lambda result: result["parameters"])
OWN_DTYPES = zero.own_dtypes()
TECHNIQUE = by_collectives(
    zero.trained_needed(lambda look, r: len(look.case.inputs[r]["xs"]), "reduce_scatter", "all_gather"),
    zero.something_sharded(),
    zero.state_kept(),
    only_calls("reduce", "broadcast", "reduce_scatter", "all_gather", hint=(
        "Reduce each gradient to its owner and broadcast its parameters from there (or reduce-scatter and all-gather): "
        "an all-reduce brings every rank gradients that it does not use.")),
    zero.state_divided(_balanced_share, "The result is right, but some ranks hold much more state than others: balance "
                                        "the tensors by size, those of all groups together."),
    *weighs_at_most({END: models(2, each_share=3)}),  # AMSGrad's state
    OWN_DTYPES,
    Demand("accepted", "parameters that differ between ranks, or none, are a ValueError", (
        "No parameters, or parameters that are not equal on all ranks, in whichever group, must be refused with a "
        "ValueError when the optimizer is made: require_equal compares all of them."), on_each_rank(_taken)),
    bytes_sent(_sent, "2(n−1)/n of the gradients' bytes a step",
               "More was sent than one reduction of the gradients and one copy of the parameters: no more than data "
               "parallelism sends."),
    group_hint="The ranks of other groups are touched: pass group=group to every call, and group_dst or group_src.",
    symptoms=(
        raised("is not an Optimizer", "A scheduler takes nothing but an Optimizer: write class ShardedOptimizer("
               "torch.optim.Optimizer), as the skeleton has it.", "not an optimizer"),
        raised("optimizer must support momentum", NO_DEFAULTS, "defaults"),
        Symptom("groups ignored", GROUPS, _lacks_options, refuted=lambda look: not look.case.inputs[0]["two_groups"]),
        Symptom("options not there", NO_OPTIONS, _lacks_options),
        zero.raised_any("super forgotten", "Optimizer's own constructor makes self.param_groups, with the options in each: "
                                           "call super().__init__(params, options).",
                        "attribute 'param_groups'", "_optimizer_step_pre_hooks", "KeyError: 'lr'"),
        Symptom("closure ignored", "step(closure) calls the closure, which computes loss and gradients, before it reduces "
                                   "them, and returns the closure's loss. (Gradients must be on meanwhile.)",
                _closure_ignored),
        zero.group_demanded("ShardedOptimizer(params, AdamW)"),
        raised("NoneType", "A parameter that took no part has grad None: leave it out, on all ranks.", "no gradient"),
        Symptom("gradients not reduced", "Each owner steps with its own gradient: bring it the sum over all ranks first.",
                _never_reduced),
        Symptom("closure twice", "The closure runs twice in a step, and its gradients add up: step(closure) calls it once, "
                                 "before it reduces; the wrapped optimizer's step() gets no closure.",
                lambda look: any(len(runs) > 1 for _, _, runs in _closures(look))),
        Symptom("closure after reduction", CLOSURE_LATE,
                lambda look: _reduced_before_closure(look) and NOT_SENT.matches(look)),
        Symptom("old plan", "A layer that had no gradient in the first step has one later, and nobody reduces or sends it: "
                            "the list of what travels was made in the first step. Ask in each step anew whose grad is not "
                            "None.", _old_plan, refuted=lambda look: not zero.has_rests(look)),
        _either(NOT_SENT, raised("but other values", DRIFTED, "")),  # so the next one finds, when it is made
        instead(OWN_DTYPES),
        raised("empty parameter list", "params may be a generator, such as model.parameters(), which can be run through "
                                       "only once: make a list of it first. (Who owns nothing has empty groups.)",
               "generator"),
        deadlocked("", "The ranks miss each other: every one of the group, owner or not, calls each reduce and each "
                       "broadcast, in one order.", "not all take part"),
        Symptom("gradients left", "After zero_grad() some gradients are still there, and the next ones are added to them: "
                                  "it must reach the parameters of all ranks, not only one's own.",
                lambda look: any(s.name == LEFT and s.facts["count"] for s in look.evidence.trace.spans)),
        raised("initial_lr", RATE_NOT_HEARD, "rate not heard"),  # a scheduler wrote it into a copy
    ),
    fallbacks=(Symptom("closure after reduction", CLOSURE_LATE, _reduced_before_closure),),  # all ranks equally wrong
)
