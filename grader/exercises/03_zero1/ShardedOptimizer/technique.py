"""How ShardedOptimizer must work, and how it can fail."""

from grader.evidence.evidence import RAISED, RETURNED
from grader.exercises.technique import zero
from grader.exercises.technique.models import reduced
from grader.exercises.technique.sharding import by_collectives
from grader.judging.demands import bytes_sent, only_calls
from grader.judging.exercise import Look, Symptom
from grader.judging.symptoms import raised
from utils.costs.formulas import bytes_sent_per_rank

from .call import LEFT

RATE_NOT_HEARD = ("A scheduler changes \"lr\" in self.param_groups, and the wrapped optimizer has groups of its own: copy "
                  "the options over before it steps (and back after load_state_dict()).")


def _balanced_share(look: Look, rank: int) -> float:
    """By whole tensors: an equal share and half the largest tensor's state, or that tensor's alone."""
    sizes, n = zero.whole_state(look, rank), look.case.group_size(rank)
    largest = max(sizes, default=0)
    return max(largest, sum(sizes) / n + largest / 2) + zero.STATE_SLACK_BYTES


def _sent(look: Look, rank: int) -> float:
    total = sum(gradient.nbytes for gradient in reduced(look.case, rank).values())
    steps = len(look.case.inputs[rank]["xs"])
    averaged = bytes_sent_per_rank("all_reduce", total, look.case.group_size(rank))
    return steps * averaged + zero.check_bytes(look, rank, times=2)


def _never_reduced(look: Look) -> bool:
    """Nothing is reduced in any step, where there are several ranks."""
    steps = [s for s in look.evidence.trace.spans if s.name == "step"]
    calls = [c for c in look.evidence.trace.calls if c.op in ("reduce", "reduce_scatter", "all_reduce") and any(
        s.rank == c.rank and s.start_s <= c.start_s <= s.end_s for s in steps)]
    several = any(look.case.group_size(rank) > 1 for rank in look.working)
    return look.evidence.ending == RETURNED and several and not calls


def _closure_ignored(look: Look) -> bool:
    if look.evidence.ending == RAISED:
        texts = ("does not require grad", "unexpected keyword", "positional argument")
        return any(text in look.evidence.error for text in texts)
    return any(result["loss"] is None for _, result, _ in look.pairs())


TECHNIQUE = by_collectives(
    zero.something_sharded(),
    only_calls("reduce", "broadcast", "reduce_scatter", "all_gather", hint=(
        "Reduce each gradient to its owner and broadcast its parameters from there (or reduce-scatter and all-gather): "
        "an all-reduce brings every rank gradients that it does not use.")),
    zero.state_divided(_balanced_share, "The result is right, but some ranks hold much more state than others: balance "
                                        "the tensors by size, those of all groups together."),
    bytes_sent(_sent, "2(n−1)/n of the gradients' bytes a step",
               "More was sent than one reduction of the gradients and one copy of the parameters: no more than data "
               "parallelism sends."),
    group_hint="The ranks of other groups are touched: pass group=group to every call, and group_dst or group_src.",
    symptoms=(
        raised("is not an Optimizer", "A scheduler takes nothing but an Optimizer: write class ShardedOptimizer("
               "torch.optim.Optimizer), as the skeleton has it.", "not an optimizer"),
        zero.raised_any("super forgotten", "Optimizer's own constructor makes self.param_groups, with the options in each: "
                                           "call super().__init__(params, options).",
                        "attribute 'param_groups'", "_optimizer_step_pre_hooks", "KeyError: 'lr'"),
        Symptom("closure ignored", "step(closure) calls the closure, which computes loss and gradients, before it reduces "
                                   "them, and returns the closure's loss. (Gradients must be on meanwhile.)",
                _closure_ignored),
        raised("NoneType", "A parameter that took no part has grad None: leave it out, on all ranks.", "no gradient"),
        Symptom("gradients not reduced", "Each owner steps with its own gradient: bring it the sum over all ranks first.",
                _never_reduced),
        zero.drifted("parameters not sent", "The ranks' parameters differ: each owner updated its tensors, and the others "
                                            "never heard of it. After the step, broadcast every parameter from its owner.",
                     lambda result: result["parameters"]),
        Symptom("gradients left", "After zero_grad() some gradients are still there, and the next ones are added to them: "
                                  "it must reach the parameters of all ranks, not only one's own.",
                lambda look: any(s.name == LEFT and s.facts["count"] for s in look.evidence.trace.spans)),
        raised("initial_lr", RATE_NOT_HEARD, "rate not heard"),  # a scheduler wrote it into a copy
    ),
)
