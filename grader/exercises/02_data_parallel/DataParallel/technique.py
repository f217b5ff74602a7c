"""How DataParallel must be done, and how it can fail."""

from grader.evidence.evidence import RETURNED
from grader.exercises.technique import training
from grader.exercises.technique.rank_by_rank import on_each_rank, spans_called
from grader.exercises.technique.sharding import first_wrong
from grader.judging.demands import only_calls, results_waited
from grader.judging.exercise import Demand, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, raised, unwaited
from utils.costs.formulas import bytes_sent_per_rank

STEPS = 3


def _broadcast_bytes(look: Look, rank: int) -> float:
    state_bytes = training.model_bytes(look, rank) + training.A_LOSS_BYTES
    return bytes_sent_per_rank("broadcast", state_bytes, look.case.group_size(rank))


def _not_quiet(look: Look, rank: int) -> str:
    """No all-reduce while gradients accumulate."""
    for span in spans_called(look, rank, "accumulation"):
        if any(span.start_s <= call.start_s <= span.end_s for call in look.evidence.trace.of(rank)):
            return f"rank {rank} communicated inside no_sync()"
    return ""


def _begins_to_differ(id: str, part: str, hint: str) -> Symptom:
    """Of the result's three parts, `part` is the first that is wrong on any rank."""
    return Symptom(id, hint, lambda look: look.evidence.ending == RETURNED and first_wrong(
        look, ("start", "gradients", "parameters")) == part)


ONCE = training.gradient_bytes_once(STEPS, _broadcast_bytes)
TECHNIQUE = Technique(
    demands=(
        only_calls("all_reduce", "broadcast", hint="dist.broadcast and dist.all_reduce are all that this exercise needs."),
        *training.OVERLAPPED,
        Demand("communicates in no_sync", "nothing is sent inside no_sync()",
               "Gradients that only accumulate are reduced already: inside no_sync() the hooks must do nothing.",
               on_each_rank(_not_quiet)),
        training.OWN_DTYPES,
        ONCE,
        results_waited(),
    ),
    symptoms=(
        group_ignored("The ranks of other groups are touched: pass group=group to every call, and group_src=0 to "
                      "broadcast."),
        unwaited(),
        training.instead(ONCE),
        raised("argument: 'group'", "DataParallel(module) without a group must work: group=None means the world.",
               "group demanded"),
        raised("no_sync", "no_sync() is missing, or not a context manager (contextlib.contextmanager makes one).",
               "no no_sync"),
        raised("NoneType", "A parameter that took no part has p.grad None: leave it out, on all ranks.", "no gradient"),
        training.FROZEN_HOOKED,
    ),
    fallbacks=(
        _begins_to_differ("start not shared", "start", "The ranks begin with different parameters or buffers: broadcast "
                                                       "both from the group's rank 0 when wrapping."),
        _begins_to_differ("gradients wrong", "gradients", "The ranks begin alike, but the first step's gradients are not "
                                                          "the mean over ranks of all that was accumulated."),
        _begins_to_differ("later steps wrong", "parameters", "The first step's gradients are right, and the parameters at "
                                                             "the end are not: what is left over from one step must not "
                                                             "act in the next."),
    ),
)
