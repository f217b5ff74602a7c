"""How activation_terms must be done, and how it can fail."""

from collections.abc import Callable
from typing import Any

from grader.exercises.technique.arithmetic import arithmetic
from grader.judging.exercise import Look, Symptom
from grader.judging.symptoms import every_rank

# Parts that keep alike: one lesson for each of these.
TOGETHER = (("attention_norm", "mlp_norm"), ("qkv", "out", "up"), ("attention.scores",), ("attention.softmax",),
            ("attention.dropout", "attention_dropout", "mlp_dropout"), ("attention.mix",), ("gelu", "down"))


def _first_wrong_is(parts: tuple[str, ...]) -> Callable[[Look, int, Any, Any], bool]:
    """Whether what is wrong first, in the order of the names, is one of these parts."""

    def test(look: Look, rank: int, found: Any, expected: Any) -> bool:
        wrong = (name for name, right in expected.items() if not look.same(found[name], right))
        return found.keys() == expected.keys() and next(wrong) in parts

    return test


TECHNIQUE = arithmetic(
    fallbacks=tuple(Symptom(f"{parts[0]} keeps", every_rank(_first_wrong_is(parts))) for parts in TOGETHER))
