"""How activation_terms must be done, and how it can fail."""

from grader.exercises.technique.arithmetic import arithmetic
from grader.judging.exercise import Symptom
from grader.judging.symptoms import every_rank

TECHNIQUE = arithmetic(
    fallbacks=(
        Symptom("another part", "Look at the part that is shown first: which tensors does its backward pass need that no "
                                "part before it keeps, of how many numbers, in how many bytes each?",
                every_rank(lambda look, rank, found, expected: isinstance(found, dict) and found.keys() == expected.keys())),
    ),
)
