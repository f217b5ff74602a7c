"""How reduce_when_ready must be done, and how it can fail."""

from grader.exercises.technique.models import reduced
from grader.exercises.technique.rank_by_rank import on_each_rank, spans_called
from grader.exercises.technique.training import (
    FEW_DIGITS,
    FROZEN_HOOKED,
    NO_GRADIENT,
    OVERLAPPED,
    gradient_bytes_once,
    gradients_needed,
    instead,
    left_out,
    some_unused,
)
from grader.judging.compare import same
from grader.judging.demands import only_calls, results_waited
from grader.judging.exercise import Demand, Look, Symptom, Technique
from grader.judging.symptoms import changed_under_way, every_rank, group_ignored, raised, unwaited, wrong_ranks

STEPS = 2


def _begun_at_the_end(look: Look, rank: int) -> str:
    """Where every parameter gets a gradient, all of their bytes are on their way when the backward pass is over."""
    whole = sum(p.nbytes for p in reduced(look.case, rank).values())
    if look.case.group_size(rank) == 1 or some_unused(look, rank):
        return ""
    calls = look.evidence.trace.of(rank, "all_reduce")
    for backward in spans_called(look, rank, "backward"):
        begun = sum(call.bytes for call in calls if backward.start_s <= call.start_s < backward.end_s)
        if begun < whole:
            return f"rank {rank} began to reduce {begun:,} of {whole:,} B during the backward pass"
    return ""


ONCE = gradient_bytes_once(STEPS)
TECHNIQUE = Technique(
    demands=(
        gradients_needed(STEPS),
        only_calls("all_reduce", hint="dist.all_reduce is all the communication that this exercise needs."),
        *OVERLAPPED,
        Demand("some at the end", "no all-reduce waits for the end of the backward pass",
               "Most gradients are on their way in time, but some are held back until the backward pass is over: let each "
               "one's hook start its all-reduce, the small ones' too.", on_each_rank(_begun_at_the_end)),
        ONCE,
        results_waited(),
    ),
    symptoms=(
        group_ignored("The mean runs over ranks that are not in the group: pass group=group, and divide by the group's "
                      "size."),
        unwaited(),
        instead(ONCE),
        FROZEN_HOOKED,
        NO_GRADIENT,
        raised("NoneType", "A hook that runs before the gradient is stored finds p.grad None (or the last one): "
                           "register_post_accumulate_grad_hook runs after.", "too early a hook"),
    ),
    fallbacks=(
        FEW_DIGITS,
        left_out(STEPS),
        Symptom("second step wrong", "Right in the first backward pass, wrong in the second: finish() must forget the "
                                     "works that it waited for, and from an all-reduce's start to its wait() nothing else "
                                     "may change the gradient (divide it, say).",
                every_rank(lambda _, rank, found, right: same(found[0], right[0]))),
        changed_under_way(),
        Symptom("first step wrong", "After the first backward pass already a gradient is not the mean over ranks: "
                                    "all-reduce p.grad itself, once it is stored, touch it again only after wait(), and "
                                    "divide each one once.",
                wrong_ranks(lambda _, rank, found, right: not same(found[0], right[0]))),
    ),
)
