"""How reduce_when_ready must be done, and how it can fail."""

from grader.exercises.technique.rank_by_rank import on_each_rank
from grader.exercises.technique.training import (
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
from grader.judging.demands import only_calls, results_waited, unchanged_under_way
from grader.judging.exercise import Demand, Symptom, Technique
from grader.judging.symptoms import changed_under_way, every_rank, group_ignored, raised, unwaited, wrong_ranks

STEPS = 2
ONCE = gradient_bytes_once(STEPS)
TECHNIQUE = Technique(
    demands=(
        gradients_needed(STEPS),
        only_calls("all_reduce"),
        *OVERLAPPED,
        Demand("some at the end", "no all-reduce waits for the end of the backward pass",
               on_each_rank(given_in_backward("all_reduce"))),
        Demand("held up by an unused one", "no all-reduce waits for a gradient that never comes",
               on_each_rank(given_beside_unused("all_reduce"))),
        ONCE,
        results_waited(),
        unchanged_under_way(),
    ),
    symptoms=(
        group_ignored(),
        unwaited(),
        instead(ONCE),
        FROZEN_HOOKED,
        NO_GRADIENT,
        raised("NoneType", "too early a hook"),
    ),
    fallbacks=(
        left_out(STEPS),
        Symptom("second step wrong", every_rank(lambda _, rank, found, right: same(found[0], right[0])),
                refuted=lambda look: any(look.evidence.trace.of(rank)[0].changed for rank in look.working)),
        changed_under_way(),
        Symptom("first step wrong", wrong_ranks(lambda _, rank, found, right: not same(found[0], right[0]))),
    ),
)
