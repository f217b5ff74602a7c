"""What a clock has decided is looked at once more before it costs points: with a rank that is later still, and more time."""

from collections.abc import Sequence
from dataclasses import replace

from grader.calling.handing_out import Given
from grader.evidence.evidence import TIMED_OUT, Evidence
from grader.judging.exercise import Trial
from grader.judging.verdict import Verdict

LATER, LONGER = 8, 2  # times
BUSY, HARDLY_RAN = 0.2, 0.5  # of the time, in which ranks waited for processors that others used


def in_doubt(verdict: Verdict, trials: Sequence[Trial], seen: list[Evidence] | str) -> list[int]:
    """The cases to look at again, by number: of an exercise that lacks points only where a clock can be to blame.

    That is where a rank comes late, on a machine that was busy, and in what comes after a time-out on such a machine.
    """
    if verdict.passed or isinstance(seen, str):
        return []
    failed = [number for number, case in enumerate(verdict.cases) if not (case.right and all(d.met for d in case.demands))]
    left_out = list(range(len(seen), len(trials)))
    if left_out and not _is_busy(seen[-1]):
        return []
    excused = [number for number in failed if trials[number].case.late_s or _is_busy(seen[number])]
    return [*failed, *left_out] if len(excused) == len(failed) else []


def later(case: Given) -> Given:
    """The same, its late rank later still."""
    return replace(case, late_s=tuple(LATER * seconds for seconds in case.late_s))


def put_in(seen: Sequence[Evidence], numbers: Sequence[int], anew: list[Evidence] | str) -> list[Evidence]:
    """What was seen, with the cases of these numbers as they were seen anew, as far as they were."""
    if isinstance(anew, str):
        return list(seen)
    evidences = dict(enumerate(seen)) | dict(zip(numbers, anew, strict=False))
    return [evidences[number] for number in sorted(evidences)]


def too_busy(anew: list[Evidence] | str) -> bool:
    """Whether a second look, too, was at ranks that mostly waited for processors."""
    return not isinstance(anew, str) and any(one.starved_s > HARDLY_RAN * one.elapsed_s for one in anew)


def _is_busy(evidence: Evidence) -> bool:
    return (evidence.ending == TIMED_OUT and evidence.starved_s > BUSY * evidence.elapsed_s) or (
        evidence.starved_s > HARDLY_RAN * evidence.elapsed_s)
