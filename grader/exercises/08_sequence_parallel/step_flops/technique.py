"""How step_flops must be done, and how it can fail."""

from typing import Any

from grader.exercises.technique.arithmetic import arithmetic
from grader.judging.compare import same
from grader.judging.exercise import Look, Symptom
from grader.judging.symptoms import every_rank


def _model_is_right(look: Look, rank: int, found: Any, expected: Any) -> bool:
    return same(float(found[0]), expected[0], 1e-9)


TECHNIQUE = arithmetic(
    fallbacks=(
        Symptom("wrong hardware", "The model's FLOPs are right, the hardware's are not: to the model's add what runs again, "
                                  "once, in every layer.", every_rank(_model_is_right)),
        Symptom("wrong model", "The first number, the model's FLOPs, is wrong: add up a forward pass product by product, "
                               "the four weights and the two products of attention in each layer, then one head; a step "
                               "costs three of it.", every_rank(lambda *of_a_rank: not _model_is_right(*of_a_rank))),
    ),
)
