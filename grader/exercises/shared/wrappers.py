"""What one process makes of a module that any wrapper shards."""

from typing import Any

from grader.calling.training import parameters
from grader.exercises.shared.one_process import train
from grader.exercises.technique.models import model_of
from grader.judging.exercise import Case


def plain(case: Case, rank: int) -> dict[str, Any]:
    """Parameters and buffers at the start, which are the first rank's, and the parameters at the end."""
    model = model_of(case, rank)
    trained = train(case, rank)["parameters"]
    return {"start": parameters(model), "digits kept": True, "buffers": dict(model.named_buffers()), "parameters": trained}
