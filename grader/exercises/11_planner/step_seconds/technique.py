"""How step_seconds must be done, and where it first differs."""

from collections.abc import Callable

from grader.exercises.technique.arithmetic import arithmetic
from grader.judging.compare import same
from grader.judging.exercise import Look, Symptom


def _first_wrong(*parts: str) -> Callable[[Look], bool]:
    """What is wrong first, in the order in which one follows from the other, is one of these."""

    def matches(look: Look) -> bool:
        found, right = look.outputs[0], look.right[0]
        wrong = [part for part in right if found.keys() == right.keys() and not same(found[part], right[part], 1e-9)]
        return wrong[:1] != [] and wrong[0] in parts

    return matches


TECHNIQUE = arithmetic(
    fallbacks=(
        Symptom("other parts", "Return a dictionary with five names: compute, tp, pp, dp, bubble.",
                lambda look: not isinstance(look.outputs[0], dict) or look.outputs[0].keys() != look.right[0].keys()),
        Symptom("compute wrong", "compute is wrong, and all else follows from it: the step's FLOPs, shared by all devices, "
                "at flops_per_s each.", _first_wrong("compute")),
        Symptom("messages wrong", "compute is right, an axis is not: messages × α + bytes / bandwidth of its link, less "
                "what is hidden, at least 0.", _first_wrong("tp", "pp", "dp")),
        Symptom("bubble wrong", "Only the bubble is wrong: (p − 1)/(v·m) of what all passes of the step take.",
                _first_wrong("bubble")),
    ),
)
