"""Micro-batches forward through the stages: receive, compute, send, and the last stage keeps what comes out."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.one_process import TOLERANCE
from grader.exercises.shared.pipelines import pipeline_cases, stages_of
from grader.judging.exercise import Case, Exercise, Slip


def _own_output(case: Case, rank: int) -> Tensor:
    """What comes out of this rank's stage, of the whole batch."""
    with torch.no_grad():
        stages = nn.Sequential(*stages_of(case, rank)[:case.group_rank(rank) + 1])
        return stages(case.inputs[case.members(rank)[0]]["x"])


def _whole_output(case: Case, rank: int) -> Tensor | None:
    """The last stage's output; None for any other rank."""
    return _own_output(case, rank) if rank == case.members(rank)[-1] else None


def _of_last(id: str, hint: str, pick: Callable[[Sequence[Tensor]], Tensor]) -> Slip:
    """What pick(outputs of each micro-batch) makes of the last stage's output."""
    return Slip(id, hint, lambda case, rank, right: None if right[rank] is None else pick(
        right[rank].chunk(case.inputs[rank]["n_micro"])))


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
    slips=(
        Slip("kept by others", "Only the last stage has the output of the whole: the other ranks return None.",
             lambda case, rank, right: _own_output(case, rank)),
        _of_last("last micro-batch only", "Only the last micro-batch came out: keep the output of each one and join them "
                                          "with torch.cat.", lambda outputs: outputs[-1]),
        _of_last("stacked", "The outputs are stacked, with a dim of their own: join them along the rows, (B, O), with "
                            "torch.cat.",
                 torch.stack),
        _of_last("joined side by side", "The outputs are joined side by side: they are rows, so join them along dim 0.",
                 lambda outputs: torch.cat(outputs, -1)),
        _of_last("mean of outputs", "The mean of the micro-batches' outputs is no output: join them along the rows.",
                 lambda outputs: torch.stack(outputs).mean(0)),
        _of_last("wrong order", "The micro-batches come out in the reverse order: send and keep them in order.",
                 lambda outputs: torch.cat(outputs[::-1])),
        _of_last("one buffer for all", "Every micro-batch came out as the same one: a receive into one buffer overwrites "
                                       "what is still needed. Make a new one for each (torch.empty_like).",
                 lambda outputs: torch.cat(outputs[-1:] * len(outputs))),
    ),
)
