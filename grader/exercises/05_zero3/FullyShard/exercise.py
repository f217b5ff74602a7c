"""FullyShard: shards a module; each layer is gathered only while it computes."""

from collections.abc import Sequence
from typing import Any

from grader.exercises.shared.cases import each_group
from grader.exercises.shared.one_process import TOLERANCE
from grader.exercises.shared.training_cases import SEEDS, model_cases, weighed_case, with_batches
from grader.exercises.shared.wrappers import plain
from grader.exercises.technique.sharding import ROWS
from grader.judging.exercise import Case, Draw, Exercise

STEPS, LR = 2, 0.05


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    """Half of the cases accumulate, one computes in float32 (by SGD, which does not blow up rounding)."""

    def inputs(model: str, n: int, seed: int) -> list[dict[str, Any]]:
        lower = model == "keywords"
        micro = 2 if n in (2, 3) else 1
        make = with_batches(draw, lambda n: ROWS, STEPS * micro, micro=micro, lr=LR, optimizer="SGD" if lower else "AdamW",
                            compute_dtype="float32" if lower else None)
        return [{**of_rank, "seed": seed if r == 0 else draw.integer(0, SEEDS)}
                for r, of_rank in enumerate(make(model, n, seed))]

    weighed = weighed_case(inputs, grading, "wider", optimizer="SGD", micro=1)  # no gradients stand between passes
    return [*model_cases(draw, grading, ("buffered", "turned", "keywords", "gpt"), inputs), *weighed]


EXERCISE = Exercise(
    title="Shard a module",
    parameters=("module", "compute_dtype", "group"),
    make_cases=_cases,
    oracle=each_group(plain),
    trains=True,
    measured=True,
    forbidden=("torch.distributed.fsdp",),
    tolerance=TOLERANCE,
    points={"values": 3, "technique": 3},
)
