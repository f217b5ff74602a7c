"""What training_bytes returns, and that it needs no message."""

from grader.exercises.technique.arithmetic import arithmetic
from grader.judging.exercise import Look, Symptom
from grader.judging.symptoms import wrong_ranks

ITEMS = ("parameters", "gradients", "master parameters", "momentum", "variance")


def _exchanged(look: Look, rank: int, found: dict[str, float], right: dict[str, float]) -> bool:
    """The right numbers, with other items."""
    return found.keys() == right.keys() and sorted(found.values()) == sorted(right.values())


TECHNIQUE = arithmetic(
    fallbacks=(
        Symptom("items exchanged", wrong_ranks(_exchanged)),
        Symptom("keys", wrong_ranks(lambda _, rank, found, right: not isinstance(found, dict) or set(found) != set(ITEMS))),
    ),
)
