"""How choose_layout must be done, and where it first differs."""

from collections.abc import Callable
from typing import Any

from grader.exercises.technique.arithmetic import arithmetic
from grader.judging.exercise import Look, Symptom
from grader.judging.symptoms import every_rank

NAMES = {"dp", "tp", "pp", "micro_batch", "n_micro"}


def _returned(test: Callable[[dict[str, int], dict[str, Any]], bool]) -> Callable[[Look], bool]:
    """A layout came back, and test(layout, inputs)."""

    def matches(look: Look, rank: int, found: Any, expected: Any) -> bool:
        return isinstance(found, dict) and found.keys() == NAMES and test(found, look.case.inputs[rank])

    return every_rank(matches)


def _of_other_devices(how: dict[str, int], inputs: dict[str, Any]) -> bool:
    return how["dp"] * how["tp"] * how["pp"] != inputs["n_devices"]


def _no_layout(look: Look, rank: int, found: Any, right: Any) -> bool:
    return right is not None and (not isinstance(found, dict) or found.keys() != NAMES)


TECHNIQUE = arithmetic(
    Symptom("not all devices", _returned(_of_other_devices)),
    fallbacks=(
        Symptom("no layout", every_rank(_no_layout)),
        Symptom("another layout", _returned(lambda how, inputs: True)),
    ),
)
