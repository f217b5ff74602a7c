"""ZeRO-2's gradients in buckets: reduce-scatters that run beside the backward pass, a bounded number of them at once."""

from typing import Any

from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.one_process import TOLERANCE
from grader.exercises.shared.training_cases import model_cases, weighed_case, with_batches
from grader.exercises.shared.zero_cases import mean_shards
from grader.judging.exercise import TECHNIQUE, VALUES, Case, Draw, Exercise

PASSES = 2
BUCKETS = {  # (bucket_bytes, in_flight): more buckets than may be in flight; of the deep model a layer fills one to the byte
    "mlp": (200, 2), "deep": (33_280, 2), "tied": (300, 1), "unused": (400, 1)}
A_LAYER = (1 << 20, 2)  # of the model that is weighed, each layer fills a bucket


def _cases(draw: Draw, grading: bool) -> list[Case]:
    def inputs(model: str, n: int, seed: int) -> list[dict[str, Any]]:
        bucket_bytes, in_flight = BUCKETS.get(model, A_LAYER)
        more = {"bucket_bytes": bucket_bytes, "in_flight": in_flight}
        return with_batches(draw, lambda n: 2, PASSES, **more)(model, n, seed)

    return [*model_cases(draw, grading, tuple(BUCKETS), inputs), *weighed_case(inputs, grading)]


EXERCISE = Exercise(
    title="Reduce in buckets, while backward goes on",
    parameters=("model", "bucket_bytes", "in_flight", "group"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: {"shards": mean_shards(case, r, range(PASSES)), "gradients left": []}),
    trains=True,
    measured=True,
    forbidden=("torch.distributed.optim", "torch.distributed.fsdp"),
    tolerance=TOLERANCE,
    points={VALUES: 2, TECHNIQUE: 4},
)
