"""GatheredLayer: one layer's parameters, in shards at rest, whole while they are computed with."""

from collections.abc import Sequence
from typing import Any

import torch

from grader.calling.sharding import ROUNDS
from grader.evidence.case import WEIGHED
from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.layer_cases import (
    gathered_states,
    in_own_dtype_slip,
    layer_cases,
    pieces_on,
    rounded_slip,
    same_on_all,
    stale_slip,
)
from grader.exercises.shared.one_process import TOLERANCE
from grader.judging.exercise import Case, Draw, Exercise, Slip


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


def _without_gradients(states: dict[str, Any]) -> dict[str, Any]:
    return states | {f"gradients, round {number}": [None] * len(states["pieces"]) for number in range(ROUNDS)}


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
    slips=(
        in_own_dtype_slip("While the layer is gathered, its parameters have the compute dtype: cast the shard before you "
                          "send it."),
        rounded_slip("After a round the slices have lost digits: the shard must keep its own dtype. Cast a copy only."),
        stale_slip("An optimizer's changes to p.data don't reach the next gather(). At rest p.data must be a view of "
                   "shard_C, and every gather() must send shard_C as it is now."),
        Slip("gradients dropped", "The gradients of the slices are lost: gather() puts each p.grad aside, and free() gives "
                                  "it back.", lambda case, r, right: _without_gradients(right[r])),
    ),
)
