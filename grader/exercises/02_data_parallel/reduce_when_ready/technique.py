"""How reduce_when_ready must be done, and how it can fail."""

from grader.exercises.technique.rank_by_rank import on_each_rank
from grader.exercises.technique.training import (
    FEW_DIGITS,
    FROZEN_HOOKED,
    NO_GRADIENT,
    OVERLAPPED,
    given_beside_unused,
    given_in_backward,
    gradient_bytes_once,
    gradients_needed,
    instead,
    left_out,
)
from grader.judging.compare import same
from grader.judging.demands import only_calls, results_waited
from grader.judging.exercise import Demand, Symptom, Technique
from grader.judging.symptoms import changed_under_way, every_rank, group_ignored, raised, unwaited, wrong_ranks

STEPS = 2


ONCE = gradient_bytes_once(STEPS)
TECHNIQUE = Technique(
    demands=(
        gradients_needed(STEPS),
        only_calls("all_reduce", hint="dist.all_reduce is all the communication that this exercise needs."),
        *OVERLAPPED,
        Demand("some at the end", "no all-reduce waits for the end of the backward pass",
               "Most gradients are on their way in time, but some are held back until the backward pass is over: let each "
               "one's hook start its all-reduce, the small ones' too.", on_each_rank(given_in_backward("all_reduce"))),
        Demand("held up by an unused one", "no all-reduce waits for a gradient that never comes",
               "Where a layer takes no part in the pass, others' gradients start only in finish(): they wait for its turn, "
               "which never comes. Let each hook start its own all-reduce at once, whatever came before it.",
               on_each_rank(given_beside_unused("all_reduce"))),
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
