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


TECHNIQUE = arithmetic(
    Symptom("not all devices", "dp · tp · pp must be n_devices: every device takes part.", _returned(_of_other_devices)),
    fallbacks=(
        Symptom("no layout", "Return the layout itself, a dictionary with dp, tp, pp, micro_batch and n_micro; None only "
                "where none fits.", every_rank(lambda look, rank, found, right: right is not None and (
                    not isinstance(found, dict) or found.keys() != NAMES))),
        Symptom("another layout", "Another layout is faster, or yours is not legal, or does not fit: print the seconds, the "
                "bytes and the four rules for yours and for the one that is expected.", _returned(lambda how, inputs: True)),
    ),
)
