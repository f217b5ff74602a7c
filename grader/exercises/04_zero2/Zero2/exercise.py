"""Zero2: gradients and optimizer state in shards, for any module and any optimizer that works number by number."""

from collections.abc import Sequence
from typing import Any

from grader.exercises.shared.cases import each_group
from grader.exercises.shared.one_process import TOLERANCE, train
from grader.exercises.shared.training_cases import weighed_case, with_batches
from grader.exercises.shared.zero_cases import odd_models, optimizer_for
from grader.judging.exercise import Case, Draw, Exercise

STEPS, LR, GAMMA = 2, 0.05, 0.5


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(model: str, n: int, seed: int) -> list[dict[str, Any]]:
        micro = 2 if n in (2, 4) else 1
        make = with_batches(draw, lambda n: 2, STEPS * micro, lr=LR, gamma=GAMMA, micro=micro, kept=[1] * (n in (1, 3)),
                            twice=[STEPS] * (n == 1), **optimizer_for(model, n))
        return make(model, n, seed)

    return [*odd_models(draw, grading, inputs, "a tensor of 3 elements"), *weighed_case(inputs, grading)]


EXERCISE = Exercise(
    title="Train with gradients in shards",
    parameters=("module", "buckets", "optimizer_class", "group"),
    make_cases=_cases,
    oracle=each_group(lambda case, r: train(case, r)["parameters"]),
    trains=True,
    measured=True,
    forbidden=("torch.distributed.optim", "torch.distributed.fsdp"),
    tolerance=TOLERANCE,
    points={"values": 4, "technique": 4},
)
