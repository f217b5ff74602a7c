"""What training_bytes returns, and that it needs no message."""

from grader.exercises.technique.arithmetic import arithmetic
from grader.judging.exercise import Symptom
from grader.judging.symptoms import wrong_ranks

ITEMS = ("parameters", "gradients", "master parameters", "momentum", "variance")
TECHNIQUE = arithmetic(
    fallbacks=(
        Symptom("keys", f"The result is a dictionary with the keys {', '.join(map(repr, ITEMS))}.",
                wrong_ranks(lambda _, rank, found, right: not isinstance(found, dict) or set(found) != set(ITEMS))),
    ),
)
