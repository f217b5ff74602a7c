"""How DropInShardedOptimizer must work, and how it can fail."""

from grader.evidence.evidence import RAISED, RETURNED
from grader.exercises.technique import zero
from grader.exercises.technique.rank_by_rank import spans_if_any
from grader.exercises.technique.sharding import by_collectives
from grader.judging.exercise import Demand, Look, Symptom
from grader.judging.symptoms import raised
from utils.trace.trace import Span

from .call import CLOSURE, LEFT, STEP

RATE_NOT_HEARD = ("A scheduler changes \"lr\" in self.param_groups, and the wrapped optimizer has groups of its own: copy "
                  "the options over before it steps (and back after load_state_dict()).")
NO_DEFAULTS = ("Schedulers such as OneCycleLR look into optimizer.defaults, which lacks options of the wrapped optimizer "
               "(momentum, betas, …): set self.defaults to the wrapped one's.")
CLOSURE_LATE = ("The closure computes the gradients, so step(closure) calls it first of all, then reduces what it computed "
                "and updates. The wrapped optimizer's step() gets no closure.")


def _closures(look: Look) -> list[tuple[int, Span, list[Span]]]:
    """Rank, step, and the closure's runs in it, of the steps that have any."""
    steps = [(rank, step) for rank in look.working for step in spans_if_any(look, rank, STEP)]
    found = [(rank, step, [run for run in spans_if_any(look, rank, CLOSURE) if step.start_s <= run.start_s <= step.end_s])
             for rank, step in steps]
    return [(rank, step, runs) for rank, step, runs in found if runs]


def _reduced_before_closure(look: Look) -> bool:
    """Steps reduce gradients, but none that a closure has just computed."""
    called = _closures(look) if look.evidence.ending == RETURNED else []
    begun = [(run.end_s, zero.reductions(look, rank, step)) for rank, step, (run, *_) in called]
    return any(moments_s for _, moments_s in begun) and not any(
        began_s > end_s for end_s, moments_s in begun for began_s in moments_s)


def _closure_once(look: Look) -> tuple[bool, str]:
    often = [f"rank {rank}: {len(runs)} times" for rank, _, runs in _closures(look) if len(runs) > 1]
    return not often, "".join(often[:1])


def _lacks_options(look: Look) -> bool:
    """A scheduler finds a group without the options of the wrapped optimizer."""
    return look.evidence.ending == RAISED and any(text in look.evidence.error for text in ("KeyError: 'betas'",
                                                                                           "KeyError: 'momentum'"))


def _closure_ignored(look: Look) -> bool:
    if look.evidence.ending == RAISED:
        texts = ("does not require grad", "unexpected keyword", "positional argument")
        return any(text in look.evidence.error for text in texts)
    return any(result["loss"] is None for _, result, _ in look.pairs())


TECHNIQUE = by_collectives(
    zero.something_sharded(),
    zero.state_kept(),
    Demand("closure twice", "a closure is called once a step", (
        "The closure runs twice in a step, and its gradients add up: step(closure) calls it once, before it reduces; the "
        "wrapped optimizer's step() gets no closure."), _closure_once, gate=True, forbids=True),
    group_hint="The ranks of other groups are touched: hand group on to super().__init__().",
    symptoms=(
        raised("is not an Optimizer", "A scheduler takes nothing but an Optimizer: build on ShardedOptimizer, which is one, "
               "as the skeleton does.", "not an optimizer"),
        raised("optimizer must support momentum", NO_DEFAULTS, "defaults"),
        Symptom("options not there", "Every option counts, not \"lr\" alone: OneCycleLR changes momentum or betas in "
                                     "self.param_groups, which lacks them. Copy all options of the wrapped optimizer into "
                                     "self.param_groups once it is made, group by group, and all of them back before it "
                                     "steps.", _lacks_options),
        zero.super_forgotten(),
        Symptom("closure ignored", "step(closure) calls the closure, which computes loss and gradients, before "
                                   "super().step() reduces them, and returns its loss. super().step() takes no closure.",
                _closure_ignored),
        zero.group_demanded("DropInShardedOptimizer(params, AdamW)"),
        Symptom("closure too late", CLOSURE_LATE, _reduced_before_closure),
        Symptom("gradients left", "After zero_grad() some gradients are still there, and the next ones are added to them: "
                                  "it must reach the parameters of all ranks, not only one's own.",
                lambda look: any(s.name == LEFT and s.facts["count"] for s in look.evidence.trace.spans)),
        raised("initial_lr", RATE_NOT_HEARD, "rate not heard"),  # a scheduler wrote it into a copy
    ),
)
