"""How pipeline_throughput must be done, and how it can fail."""

from grader.exercises.technique.arithmetic import arithmetic
from grader.judging.compare import same
from grader.judging.exercise import Symptom
from grader.judging.symptoms import wrong_ranks


def _only(place: int, id: str) -> Symptom:
    """The number at this place is wrong, and no other."""
    return Symptom(id, wrong_ranks(lambda look, rank, found, right: isinstance(found, (list, tuple)) and [
        same(*pair) for pair in zip(found, right, strict=False)] == [number != place for number in range(4)]))


TECHNIQUE = arithmetic(fallbacks=(
    _only(0, "step wrong"),
    _only(1, "limit wrong"),
    _only(2, "GPipe wrong"),
    _only(3, "1F1B wrong"),
))
