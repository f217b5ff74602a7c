"""How device_traffic must be done, and where it first differs."""

from collections.abc import Callable

from grader.exercises.technique.arithmetic import arithmetic
from grader.judging.compare import same
from grader.judging.exercise import Look, Symptom


def _only(axis: str) -> Callable[[Look], bool]:
    """All other axes are right."""

    def matches(look: Look) -> bool:
        found, right = look.outputs[0], look.right[0]
        return found.keys() == right.keys() and [
            other for other in right if not same(found[other], right[other], 1e-9)] == [axis]

    return matches


TECHNIQUE = arithmetic(
    fallbacks=(
        Symptom("other axes", "Return a dictionary with three names: tp, pp, dp.",
                lambda look: not isinstance(look.outputs[0], dict) or look.outputs[0].keys() != look.right[0].keys()),
        Symptom("tp wrong", "Only tp is wrong: passes of a layer × layers of the stage × micro-batches, each (t−1)/t of the "
                "activation's bytes.", _only("tp")),
        Symptom("pp wrong", "Only pp is wrong: neighbours of the stage × micro-batches × the bytes of what this device has "
                "of an activation.", _only("pp")),
        Symptom("dp wrong", "Only dp is wrong: passes by stage of ZeRO, each (n−1)/n of the bytes of this device's weights.",
                _only("dp")),
    ),
)
