"""Micro-batches forward through the stages: receive, compute, send, and the last stage keeps what comes out."""

import torch
from torch import Tensor, nn

from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.one_process import TOLERANCE
from grader.exercises.shared.pipelines import pipeline_cases, stages_of
from grader.judging.exercise import Case, Exercise


def _whole_output(case: Case, rank: int) -> Tensor | None:
    """What comes out of all stages, of the whole batch; None for any rank but the last."""
    if rank != case.members(rank)[-1]:
        return None
    with torch.no_grad():
        return nn.Sequential(*stages_of(case, rank))(case.inputs[case.members(rank)[0]]["x"])


EXERCISE = Exercise(
    title="Micro-batches forward",
    parameters=("stage", "x_BD", "n_micro", "like_bD", "group"),
    make_cases=pipeline_cases(
        [(1, 3, 2, "float64"), (2, 3, 3, "float64"), (3, 4, 1, "float32"), (4, 5, 2, "bfloat16"), (4, 1, 3, "float64")],
        for_grading=lambda many: [(5, 3, 2, "float64"), (2, many, 1, "float64")], without="y"),
    trains=True,
    forbidden=("torch.distributed.pipelining",),
    oracle=each_rank(_whole_output),
    tolerance=TOLERANCE,
)
