"""How exercises that look for faults in schedules are read, and what wrong findings have in common."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from grader.evidence.evidence import RETURNED
from grader.judging.exercise import Case, Look, Symptom
from utils.schedules.faults import SENTENCES
from utils.schedules.schedule import Fault

_SENTENCE = re.compile(r"rank -?\d+: (\S+ on stage -?\d+) (.*)")
_WHY = {sentence: why for why, sentence in SENTENCES.items()}


class Found(NamedTuple):
    """A fault as far as symptoms look: the step's name and the word for what is wrong; empty where there is none."""

    step: str = ""
    why: str = ""


def sentences(faults: dict[str, Any]) -> dict[str, Any]:
    """Each fault, a tuple (rank, step, why), as its sentence; anything else as it is."""
    return {name: str(Fault(*fault)) if isinstance(fault, tuple) else fault for name, fault in faults.items()}


def reading(case: Case, found: Any) -> dict[str, Any]:
    return sentences(found)


def _found(sentence: Any) -> Found:
    match = _SENTENCE.fullmatch(sentence or "")
    return Found(match[1], _WHY[match[2]]) if match else Found()


def wrongly(id: str, test: Callable[[Found, Found], bool]) -> Symptom:
    """Of every list of a case whose fault is not the right one test(found, right) holds."""

    def matches(look: Look) -> bool:
        found, right = sentences(look.outputs[0]), look.right[0]
        wrong = [(_found(found[name]), _found(right[name])) for name in right if found[name] != right[name]]
        return look.evidence.ending == RETURNED and bool(wrong) and all(test(*pair) for pair in wrong)

    return Symptom(id, matches)
