"""How activation_bytes must be done, and how it can fail."""

from grader.exercises.technique.arithmetic import arithmetic
from grader.judging.exercise import Symptom


def _only(id: str, hint: str, *ways: str) -> Symptom:
    """Wrong with these ways of recomputing. The more ways a symptom has, the later it comes: then those few are not all."""
    return Symptom(id, hint, lambda look: look.case.inputs[0]["recompute"] in ways)


TECHNIQUE = arithmetic(
    fallbacks=(
        _only("full wrong", "Only full recomputation is wrong: the block's input is all that it keeps, in 2 bytes an "
              "element: whole on every rank without sequence parallelism, a shard of it with.", "full"),
        _only("selective wrong", "Only selective recomputation is wrong: of what is kept without it the term 5as/h goes, no "
              "more and no less.", "selective"),
        _only("none wrong", "Wrong where nothing is computed again, right otherwise: look at the core of attention, 5as/h "
              "for each sbh, of which each rank has its heads'.", "none"),
        _only("linear wrong", "Wrong whether the core of attention is kept or not: look at the 34. 24 of it lie between the "
              "cut weights; the other 10 are whole, or cut along the sequence.", "none", "selective"),
    ),
)
