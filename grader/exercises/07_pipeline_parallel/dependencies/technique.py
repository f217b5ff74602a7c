"""How dependencies is read."""

from typing import Any

from grader.judging.demands import only_calls
from grader.judging.exercise import Case, Technique


def _reading(case: Case, found: Any) -> Any:
    """In any order; a step named twice is named twice."""
    return {step: sorted(map(tuple, needs)) for step, needs in found.items()}


TECHNIQUE = Technique(
    reading=_reading,
    demands=(only_calls(id="communicates", hint="This is a question about data: no message is needed."),),
)
