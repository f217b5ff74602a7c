"""How exercises are done that only compute numbers: without a message."""

from grader.judging.demands import only_calls
from grader.judging.exercise import Demand, Symptom, Technique
from grader.judging.symptoms import every_rank


def arithmetic(*symptoms: Symptom, fallbacks: tuple[Symptom, ...] = (), demands: tuple[Demand, ...] = ()) -> Technique:
    """Of a formula: no rank needs another one; `demands`: what else it must do."""
    demand = only_calls(id="communicates")
    return Technique((demand, *demands), symptoms, fallbacks)


def whole_bytes() -> Symptom:
    """Rounded to a whole number."""
    return Symptom("whole bytes",
                   every_rank(lambda look, rank, output, right: isinstance(output, int) and output == int(right)))
