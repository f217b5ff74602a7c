"""Some outputs of a linear layer on each rank: f in front, rows of the weight, their part of the bias."""

from typing import Any

from grader.exercises.shared.linears import linear_cases, result, whole
from grader.exercises.shared.sequence_inputs import own_piece
from grader.exercises.shared.split_inputs import or_refused
from grader.exercises.technique.linears import OUT
from grader.exercises.technique.splitting import TOLERANCE
from grader.judging.exercise import Case, Exercise


def _right(case: Case, rank: int) -> dict[str, Any]:
    layer = whole(case, rank)
    own_dx = own_piece(case, rank, layer["dy"], -1) @ own_piece(case, rank, layer["weight"])
    dx = layer["dx"] if case.inputs[rank]["options"].get("copy", True) else own_dx  # f is this layer's, or the caller's
    db = None if layer["db"] is None else own_piece(case, rank, layer["db"])
    gradients = {"weight": own_piece(case, rank, layer["dW"]), "bias": db}
    return result(case, rank, own_piece(case, rank, layer["y"], -1), dx, gradients)


EXERCISE = Exercise(
    title="A linear layer cut by outputs",
    parameters=("linear", "group"),
    forbidden=("torch.distributed.tensor",),
    make_cases=lambda draw, grading: linear_cases(draw, grading, OUT),
    oracle=or_refused(_right),
    measured=True,
    trains=True,
    tolerance=TOLERANCE,
)
