"""Some inputs of a linear layer on each rank: columns of the weight, g behind, and the bias once."""

from typing import Any

from grader.exercises.shared.linears import linear_cases, result, whole
from grader.exercises.shared.sequence_inputs import own_piece
from grader.exercises.shared.split_inputs import or_refused
from grader.exercises.technique.linears import IN
from grader.exercises.technique.splitting import TOLERANCE
from grader.judging.exercise import Case, Exercise


def _right(case: Case, rank: int) -> dict[str, Any]:
    layer = whole(case, rank)
    gradients = {"weight": own_piece(case, rank, layer["dW"], -1), "bias": layer["db"]}
    dx = own_piece(case, rank, layer["dx"], -1)
    return result(case, rank, layer["y"], dx, gradients) | {"bias as it was": True}


EXERCISE = Exercise(
    title="A linear layer cut by inputs",
    parameters=("linear", "group"),
    forbidden=("torch.distributed.tensor",),
    make_cases=lambda draw, grading: linear_cases(draw, grading, IN),
    oracle=or_refused(_right),
    measured=True,
    trains=True,
    tolerance=TOLERANCE,
)
