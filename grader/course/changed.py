"""What an instructor's course.toml says otherwise than when students last got their notebooks, in words."""

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import replace

from grader.course.assigning import local
from grader.course.course_file import Assigned, CourseFile, LateRule


def changes(before: CourseFile, now: CourseFile) -> Iterator[str]:
    """A line for each difference but those in a unit's exercises and points, which `exercise_changes` tells."""
    yield from _pair("title", before.title or "none", now.title or "none")
    yield from _pair("timezone", str(before.zone), str(now.zone))
    for unit in dict.fromkeys((*before.units, *now.units)):
        if unit not in now.units:
            yield f"{unit}: no longer assigned"
        elif unit not in before.units:
            yield f"{unit}: assigned for the first time"
        else:
            yield from _unit(before.units[unit], now.units[unit], now)
    yield from _pair("being late", cost_in_words(before.late), cost_in_words(now.late))
    for who in dict.fromkeys((*before.extensions, *now.extensions)):
        yield from _pair(extension_of(*who), *(_when(course.extensions.get(who), now) for course in (before, now)))
    yield from (f"{name}: withdrawn from now on" for name in sorted(now.withdrawn - before.withdrawn))
    yield from (f"{name}: no longer withdrawn" for name in sorted(before.withdrawn - now.withdrawn))


def extension_of(student: str, unit: str) -> str:
    return f"extension of {student} in {unit}"


def exercise_changes(before: Mapping[str, float], now: Mapping[str, float]) -> Iterator[str]:
    """The same of a unit's exercises and their points, by the notebook that was released and the one that would be."""
    yield from (f"{name}: asked for from now on" for name in now if name not in before)
    yield from (f"{name}: no longer asked for" for name in before if name not in now)
    yield from (f"{name}: {before[name]:g} → {points:g} points" for name, points in now.items()
                if before.get(name, points) != points)


def total_change(unit: str, before: Mapping[str, float], now: Mapping[str, float]) -> Iterator[str]:
    """That a unit has more or fewer points in all, of which the platform must be told."""
    old, new = sum(before.values()), sum(now.values())
    if old != new:
        yield (f"{unit}: {old:g} → {new:g} points in all. Set the assignment's maximum grade on the platform to {new:g} "
               f"before you hand marks back, and run `python -m grader autograde {unit} --same-cases` if some are marked")


def _unit(before: Assigned, now: Assigned, course: CourseFile) -> Iterator[str]:
    yield from _pair(f"due date of {now.unit}", _when(before.due, course), _when(now.due, course))
    yield from _pair(f"other exercises of {now.unit}", before.others, now.others)


def _pair(what: str, before: str, now: str) -> Iterator[str]:
    if before != now:
        yield f"{what}: {before} → {now}"


def _when(time: datetime.datetime | None, course: CourseFile) -> str:
    return local(time, course) if time else "none"


def cost_in_words(rule: LateRule) -> str:
    """What being late costs, for instructors."""
    if rule == replace(rule, percent_a_day=0.0, most_days=float("inf")):
        return "costs nothing"
    after = "" if rule.most_days == float("inf") else f", everything after {rule.most_days:g} days"
    return f"costs {rule.percent_a_day:g} % a day{after}"
