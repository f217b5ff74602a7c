"""FullyShardOddModules: frozen, skipped, unused and shared layers, and layers that stay gathered after forward."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from grader.exercises.shared.cases import each_group
from grader.exercises.shared.one_process import TOLERANCE
from grader.exercises.shared.training_cases import model_cases, with_batches
from grader.exercises.shared.wrappers import plain
from grader.exercises.technique.sharding import ROWS
from grader.judging.exercise import Case, Draw, Exercise

STEPS, LR = 2, 0.05


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    """Half of the cases accumulate, one computes in float32, one keeps layers; in one a pass without gradients, which skips
    a layer, comes before the first update.
    """

    def glance(model: str, x: Tensor) -> dict[str, Tensor]:
        """Rows for which a layer of "seldom" rests."""
        return {"glance": torch.cat([torch.zeros_like(x[:1]), x[1:]])} if model == "seldom" else {}

    def inputs(model: str, n: int, seed: int) -> list[dict[str, Any]]:
        lower = model == "odd"
        micro = 2 if n in (2, 3) else 1
        make = with_batches(draw, lambda n: ROWS, STEPS * micro, micro=micro, lr=LR, optimizer="SGD" if lower else "AdamW",
                            compute_dtype="float32" if lower else None, wrapping={"reshard_after_forward": model != "gpt"})
        return [{**of_rank, **glance(model, of_rank["xs"][0])} for of_rank in make(model, n, seed)]

    more = ("mixed", "empty") if grading else ()
    return model_cases(draw, grading, ("tied", "frozen", "odd", "seldom", "gpt", *more), inputs)


EXERCISE = Exercise(
    title="Shard any module",
    parameters=("module", "compute_dtype", "group"),
    make_cases=_cases,
    edges={},  # odd modules are what it is about
    oracle=each_group(plain),
    trains=True,
    measured=True,
    forbidden=("torch.distributed.fsdp",),
    tolerance=TOLERANCE,
    points={"values": 1, "technique": 1},
)
