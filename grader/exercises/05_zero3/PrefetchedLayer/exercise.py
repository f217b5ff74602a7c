"""PrefetchedLayer: a sharded layer whose gather can be started early, and waited for when the layer is needed."""

from collections.abc import Sequence
from typing import Any

from grader.calling.sharding import ROUNDS
from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.layer_cases import gathered_states, layer_cases, same_on_all
from grader.exercises.shared.one_process import TOLERANCE
from grader.judging.exercise import Case, Draw, Exercise


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    return layer_cases(grading, same_on_all(draw))


def _states(case: Case, rank: int) -> dict[str, Any]:
    states = gathered_states(case, rank)
    return states | {f"gathered again, round {number}": states[f"whole, round {number}"] for number in range(ROUNDS)}


EXERCISE = Exercise(
    title="Start a gather early",
    parameters=("parameters", "group", "compute_dtype"),
    forbidden=("torch.distributed.fsdp", "torch.distributed.tensor"),
    make_cases=_cases,
    oracle=each_rank(_states),
    trains=True,
    measured=True,
    tolerance=TOLERANCE,
    points={"values": 1, "technique": 1},
)
