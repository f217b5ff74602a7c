"""How time_collective must be done, and how it can fail."""

import math

from grader.evidence.evidence import RETURNED
from grader.exercises.technique.rank_by_rank import not_seen, on_each_rank, spans_if_any
from grader.judging.compare import same
from grader.judging.exercise import Demand, Look, Symptom, Technique
from grader.judging.needs import A_NUMBER_BYTES, needs
from grader.judging.symptoms import every_rank, group_ignored, wrong_ranks
from utils.trace.calls import POINT_TO_POINT


def _marks_s(look: Look, rank: int, name: str) -> list[float]:
    """When one rank called run_once or clock, in order."""
    return [span.start_s for span in spans_if_any(look, rank, name)]


def _not_together(look: Look, rank: int) -> str:
    """Between the warm-up and the first reading of the clock, each rank makes a call in which all meet."""
    warm_s, = _marks_s(look, rank, "run_once")[:1] or [math.inf]
    timed_s, = _marks_s(look, rank, "clock")[:1] or [0.0]
    met = any(warm_s < c.start_s < timed_s for c in look.evidence.trace.of(rank) if c.op not in POINT_TO_POINT)
    return "" if met else f"rank {rank} read the clock without having waited for the others"


def _in_between(look: Look, rank: int) -> str:
    """Between its two readings of the clock a rank makes the calls that it times, and nothing else."""
    times_s = _marks_s(look, rank, "clock") or not_seen(rank, "clock")
    within = [c for c in look.evidence.trace.of(rank) if times_s[0] < c.start_s < times_s[-1]]
    return f"rank {rank} called {within[0].op} between the readings of the clock" if within else ""


def _readings(look: Look, rank: int) -> str:
    count = len(_marks_s(look, rank, "clock"))
    return f"rank {rank} read the clock {count} times" if count != 2 else ""


def _warm_ups(look: Look, rank: int) -> str:
    """Calls before the first reading of the clock."""
    timed_s = _marks_s(look, rank, "clock")[:1] or [math.inf]
    count = sum(called_s < timed_s[0] for called_s in _marks_s(look, rank, "run_once"))
    return f"rank {rank} made {count} calls before it read the clock" if count != 1 else ""


def _not_timed(look: Look, rank: int) -> str:
    """Whoever reads the clock without having made the calls got the number elsewhere."""
    count, repeats = len(_marks_s(look, rank, "run_once")), look.case.inputs[rank]["repeats"]
    return f"rank {rank} made {count} of {repeats} calls" if count < repeats else ""


def _no_clock(look: Look) -> bool:
    """Some rank never read the clock that it was given."""
    return look.evidence.ending == RETURNED and any(not _marks_s(look, rank, "clock") for rank in look.working)


def _clock_first(look: Look) -> bool:
    """Every rank read the clock before it ever called run_once."""
    return look.evidence.ending == RETURNED and all(
        _marks_s(look, rank, "clock")[0] < _marks_s(look, rank, "run_once")[0] for rank in look.working)


TECHNIQUE = Technique(
    demands=(
        needs(lambda look, r: [("all_reduce", A_NUMBER_BYTES)]),
        Demand("not timed", "run_once is called repeats times", on_each_rank(_not_timed), gate=True),
        Demand("no barrier", "a barrier after the warm-up, before the clock starts", on_each_rank(_not_together)),
        Demand("one warm-up", "one call before the clock starts", on_each_rank(_warm_ups)),
        Demand("other calls timed", "nothing but run_once between the readings", on_each_rank(_in_between)),
        Demand("two readings", "the clock is read twice", on_each_rank(_readings)),
    ),
    symptoms=(
        Symptom("another clock", _no_clock),
        group_ignored(),
        Symptom("warm-up timed", _clock_first),
    ),
    fallbacks=(
        Symptom("each call timed", lambda look: look.evidence.ending == RETURNED and any(
                    len(_marks_s(look, rank, "clock")) > 2 for rank in look.working)),
        Symptom("digits lost", every_rank(lambda look, r, found, expected: same(found, expected, 1e-4))),
        Symptom("result not everywhere",
                wrong_ranks(lambda look, r, found, _: found is None or found == 0 or look.evidence.trace.of(r, "reduce"))),
    ),
)
