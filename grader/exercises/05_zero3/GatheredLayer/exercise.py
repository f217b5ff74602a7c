"""GatheredLayer: one layer's parameters, in shards at rest, whole while they are computed with."""

from collections.abc import Sequence
from typing import Any

import torch

from grader.calling.sharding import ROUNDS
from grader.evidence.case import WEIGHED
from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.layer_cases import gathered_states, layer_cases, pieces_on, same_on_all
from grader.exercises.shared.one_process import TOLERANCE
from grader.judging.exercise import Case, Draw, Exercise


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    inputs = same_on_all(draw)
    weighed = Case("2 ranks, weighed", tuple(own | {WEIGHED: True} for own in inputs(2, ((1700, 1700), (3,), (2,)), None)))
    return [*layer_cases(grading, inputs), *([weighed] if grading else [])]


def _states(case: Case, rank: int) -> dict[str, Any]:
    states, parameters = gathered_states(case, rank), case.inputs[rank]["parameters"]
    for number in range(ROUNDS):
        kept = [None] * (len(parameters) - 1) + [torch.full_like(parameters[-1], number + 1.0)]
        states[f"gathered again, round {number}"] = states[f"whole, round {number}"]
        states[f"gradients while whole, round {number}"] = [None] * len(parameters)
        states[f"gradients, round {number}"] = pieces_on(case, rank, kept)
    return states


EXERCISE = Exercise(
    title="Gather a layer, and free it",
    parameters=("parameters", "group", "compute_dtype"),
    forbidden=("torch.distributed.fsdp", "torch.distributed.tensor"),
    make_cases=_cases,
    oracle=each_rank(_states),
    trains=True,
    measured=True,
    tolerance=TOLERANCE,
    points={"values": 1, "technique": 1},
)
