"""How pipeline_throughput must be done, and how it can fail."""

from grader.exercises.technique.arithmetic import arithmetic
from grader.judging.compare import same
from grader.judging.exercise import Symptom
from grader.judging.symptoms import wrong_ranks


def _only(place: int, id: str, hint: str) -> Symptom:
    """The number at this place is wrong, and no other."""
    return Symptom(id, hint, wrong_ranks(lambda look, rank, found, right: isinstance(found, (list, tuple)) and [
        same(*pair) for pair in zip(found, right, strict=False)] == [number != place for number in range(4)]))


TECHNIQUE = arithmetic(fallbacks=(
    _only(0, "step wrong", "The first number is wrong, the others are right. Divide the rows of the whole batch by the time "
                           "of a step, which is the ideal time and the bubble."),
    _only(1, "limit wrong", "The second number is wrong, the others are right. Think of a batch so large that the bubble no "
                            "longer matters. How many rows are then done in each micro_s?"),
    _only(2, "GPipe wrong", "The third number is wrong, the others are right. In GPipe rank 0 makes all forward passes "
                            "before its first backward pass. How many rows are in flight then?"),
    _only(3, "1F1B wrong", "The fourth number is wrong, the others are right. How many micro-batches has rank 0 sent on in "
                           "1F1B before the first one comes back, and how many rows do they have?"),
))
