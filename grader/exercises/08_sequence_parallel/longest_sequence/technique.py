"""How longest_sequence must be done, and how it can fail."""

from collections.abc import Callable
from typing import Any

from grader.exercises.technique.arithmetic import arithmetic
from grader.judging.exercise import Look, Symptom
from grader.judging.symptoms import every_rank


def _is(compare: Callable[[float, float], bool]) -> Callable[[Look], bool]:
    """A number was returned that compares so with the right one."""

    def matches(look: Look, rank: int, found: Any, expected: Any) -> bool:
        return compare(float(found), expected)

    return every_rank(matches)


def _is_zero_wanted(look: Look) -> bool:
    return look.right[0] == 0


TECHNIQUE = arithmetic(
    Symptom("none fits", "Where not even the shortest sequence fits, the answer is 0.", _is_zero_wanted, alone=True),
    fallbacks=(
        Symptom("a fraction", "A sequence has a whole number of positions: return an int, rounded down to what fits.",
                _is(lambda found, right: found != int(found))),
        Symptom("does not fit", "Every answer is too long: something held is not counted. Put your s into the sum of "
                "what all layers keep and of the one that runs again, and compare it with the budget.",
                _is(lambda found, right: found > right), alone=True),
        Symptom("room left", "Every answer is too short: a longer sequence would fit. Only one layer is whole, and all "
                "that the ranks divide counts divided.", _is(lambda found, right: found < right), alone=True),
    ),
)
