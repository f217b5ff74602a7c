"""The verdict on a program that a student was given with faults: how many are repaired, and not which."""

from collections.abc import Sequence

from grader.evidence.case import FAULT, WHOLE_RUN
from grader.evidence.evidence import DEADLOCKED, RAISED, RETURNED, TIMED_OUT
from grader.judging.exercise import VALUES, Exercise, Trial
from grader.judging.verdict import CaseVerdict, Verdict

NOT_ALL = ""  # how the one line of the verdict ends
_HANGS = "Your program hangs. Run it on the mesh (2, 2, 2), and read the verdict."
_MANY = ("Begin with the mesh (1, 1, 1). Then run (2, 1, 1), (1, 2, 1) and (1, 1, 2), where one axis at a time is "
         "longer than 1. Which of these runs differ from the plain process?")
_FEW = "Switch parts off by the settings, such as clipping, dropout or the balance loss. Which differences go, which stay?"
_ELSE = ("None of your bugs is left, but a whole run still differs from the plain process. Something in your program that "
         "was right has changed.")


def still_there(trials: Sequence[Trial], rows: Sequence[CaseVerdict]) -> list[str]:
    """The faults that a case shows, or a case that was not run could show; the whole run only where nothing else is left."""
    looked_at = [trial.case.inputs[0][FAULT] for trial in trials]
    right = [row.right for row in rows] + [False] * (len(trials) - len(rows))
    wrong = list(dict.fromkeys(fault for fault, is_right in zip(looked_at, right, strict=True) if not is_right))
    return [fault for fault in wrong if fault != WHOLE_RUN] or wrong


def counted(exercise: Exercise, trials: Sequence[Trial], rows: Sequence[CaseVerdict]) -> Verdict:
    """One point's share for each fault that is repaired. A fault that the student added counts like one of hers."""
    left = still_there(trials, rows)
    repaired = max(0, exercise.faults - len(left))
    errors = [row.error for row in rows if row.ending in (RAISED, TIMED_OUT)]
    line = CaseVerdict(f"{repaired} of {exercise.faults} bugs repaired", 0, (), {}, NOT_ALL if left else RETURNED,
                       errors[0] if errors else "", ())
    hangs = any(row.ending == DEADLOCKED for row in rows)
    hints = (_hint(exercise.faults, left, hangs),) if left else ()
    earned = exercise.points[VALUES] * repaired / exercise.faults
    return Verdict(exercise.id, exercise.title, tuple(rows), hints, {VALUES: earned}, dict(exercise.points),
                   skipped=len(trials) - len(rows), instead=(line,))


def _hint(faults: int, left: list[str], hangs: bool) -> tuple[str, str]:
    if left == [WHOLE_RUN]:
        return WHOLE_RUN, _ELSE
    repaired = max(0, faults - len(left))
    said = f"{repaired} of your {faults} bugs {'is' if repaired == 1 else 'are'} repaired."
    return f"{len(left)} left", f"{said} {_HANGS if hangs else _MANY if 2 * repaired < faults else _FEW}"
