"""How time_collective must be done, and how it can fail."""

import math

from grader.evidence.evidence import RETURNED
from grader.exercises.technique.rank_by_rank import on_each_rank, spans_called
from grader.judging.compare import same
from grader.judging.exercise import Demand, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, wrong_ranks
from utils.trace.calls import POINT_TO_POINT


def _marks_s(look: Look, rank: int, name: str) -> list[float]:
    """When one rank called run_once or clock, in order."""
    return [span.start_s for span in spans_called(look, rank, name)]


def _not_together(look: Look, rank: int) -> str:
    """Between the warm-up and the first reading of the clock, each rank makes a call in which all meet."""
    warm_s, = _marks_s(look, rank, "run_once")[:1] or [math.inf]
    timed_s, = _marks_s(look, rank, "clock")[:1] or [0.0]
    met = any(warm_s < c.start_s < timed_s for c in look.evidence.trace.of(rank) if c.op not in POINT_TO_POINT)
    return "" if met else f"rank {rank} read the clock without having waited for the others"


def _not_timed(look: Look, rank: int) -> str:
    """Whoever reads the clock without having made the calls got the number elsewhere."""
    count, repeats = len(_marks_s(look, rank, "run_once")), look.case.inputs[rank]["repeats"]
    return f"rank {rank} made {count} of {repeats} calls" if count < repeats else ""


def _clock_first(look: Look) -> bool:
    """Every rank read the clock before it ever called run_once."""
    return look.evidence.ending == RETURNED and all(
        _marks_s(look, rank, "clock")[0] < _marks_s(look, rank, "run_once")[0] for rank in look.working)


TECHNIQUE = Technique(
    demands=(
        Demand("not timed", "run_once is called repeats times",
               "The number was not measured: call run_once() repeats times between two readings of the clock.",
               on_each_rank(_not_timed), gate=True),
        Demand("no barrier", "a barrier after the warm-up, before the clock starts",
               "The number is right for this clock, but with a real one it holds the time in which early ranks wait for "
               "late ones: after the warm-up, meet at dist.barrier(group), then read the clock.",
               on_each_rank(_not_together)),
    ),
    symptoms=(
        group_ignored("The time is that of ranks outside the group: give barrier and all_reduce the group."),
        Symptom("warm-up timed", "The first call is in the measurement, and it alone takes far longer (connections, "
                                 "buffers): call run_once() once before the first clock().", _clock_first),
    ),
    fallbacks=(
        Symptom("result not everywhere",
                "Only some ranks have the result: every rank returns it, so use all_reduce rather than reduce.",
                wrong_ranks(lambda look, r, found, _: found is None or found == 0)),
        Symptom("a tensor", "The result is a tensor: return a plain number, tensor.item().",
                wrong_ranks(lambda look, r, found, expected: same(found.item(), expected))),
    ),
)
