"""How activation_terms must be done, and how it can fail."""

from collections.abc import Callable
from typing import Any

from grader.exercises.technique.arithmetic import arithmetic
from grader.judging.compare import same
from grader.judging.exercise import Look, Symptom
from grader.judging.symptoms import every_rank

LESSONS = {
    ("attention_norm", "mlp_norm"): "A LayerNorm needs its input in backward, and no more: numbers of width h.",
    ("qkv", "out", "up"): "For dW a linear layer keeps its input, here of width h. What it puts out is kept, if at all, by "
                          "the part that follows.",
    ("attention.scores",): "q·kᵀ needs q and k in backward. They are one tensor with v, qkv's result, of width 3h: it is "
                           "kept here, all of it. The scores themselves are not kept: softmax needs its own result only.",
    ("attention.softmax",): "Softmax needs its result in backward, nothing else: for each head and sequence s² numbers, "
                            "masked or not.",
    ("attention.dropout", "attention_dropout", "mlp_dropout"): (
        "A dropout keeps a mask, one byte for each number that goes through it: s² for each head and sequence in "
        "attention, width h at the end of each half."),
    ("attention.mix",): "mix needs the weights as they were after dropout, in 2 bytes each; v is counted with the scores.",
    ("gelu", "down"): "Between `up` and `down` rows have width 4h. gelu keeps its input, up's result; down keeps its input, "
                      "gelu's result.",
}


def _names_kept(look: Look, rank: int, found: Any, expected: Any) -> bool:
    return isinstance(found, dict) and found.keys() == expected.keys()


def _first_wrong_is(parts: tuple[str, ...]) -> Callable[[Look, int, Any, Any], bool]:
    """Whether what is wrong first, in the order of the names, is one of these parts."""

    def test(look: Look, rank: int, found: Any, expected: Any) -> bool:
        wrong = (name for name, right in expected.items() if not same(found[name], right, 1e-9))
        return _names_kept(look, rank, found, expected) and next(wrong) in parts

    return test


TECHNIQUE = arithmetic(
    Symptom("other names", "Return a dictionary with exactly the 13 names listed above, spelled as there: the parts of the "
                           "core with a dot, as in attention.mix.",
            every_rank(lambda *of_a_rank: not _names_kept(*of_a_rank))),
    fallbacks=tuple(Symptom(f"{parts[0]} keeps", lesson, every_rank(_first_wrong_is(parts)))
                    for parts, lesson in LESSONS.items()),
)
