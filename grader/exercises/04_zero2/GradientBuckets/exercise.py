"""ZeRO-2's gradients in buckets: reduce-scatters that run beside the backward pass, a bounded number of them at once."""

from collections.abc import Callable
from typing import Any

from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.one_process import TOLERANCE
from grader.exercises.shared.training_cases import model_cases, weighed_case, with_batches
from grader.exercises.shared.zero_cases import Shards, mean_shards
from grader.judging.compare import ANYTHING
from grader.judging.exercise import TECHNIQUE, VALUES, Case, Draw, Exercise, Slip

PASSES = 2
BOTH = FIRST, LAST = tuple(range(PASSES))
BUCKETS = {  # (bucket_bytes, in_flight): more buckets than may be in flight; of the deep model a layer fills one to the byte
    "mlp": (200, 2), "deep": (33_280, 2), "tied": (300, 1), "unused": (400, 1)}
A_LAYER = (1 << 20, 2)  # of the model that is weighed, each layer fills a bucket


def _cases(draw: Draw, grading: bool) -> list[Case]:
    def inputs(model: str, n: int, seed: int) -> list[dict[str, Any]]:
        bucket_bytes, in_flight = BUCKETS.get(model, A_LAYER)
        more = {"bucket_bytes": bucket_bytes, "in_flight": in_flight}
        return with_batches(draw, lambda n: 2, PASSES, **more)(model, n, seed)

    return [*model_cases(draw, grading, tuple(BUCKETS), inputs), *weighed_case(inputs, grading)]


def _wrong(id: str, hint: str, shards: Callable[[Case, int, list[Any]], Shards]) -> Slip:
    """Wrong shards, whether gradients are left or not."""
    return Slip(id, hint, lambda case, r, right: {"shards": shards(case, r, right), "gradients left": ANYTHING})


def _times(id: str, hint: str, factor: Callable[[Case, int], float]) -> Slip:
    return _wrong(id, hint, lambda case, r, right: {
        name: shard * factor(case, r) for name, shard in right[r]["shards"].items()})


def _first_twice(case: Case, rank: int) -> Shards:
    first, both = mean_shards(case, rank, (FIRST,)), mean_shards(case, rank, BOTH)
    return {name: first[name] + shard for name, shard in both.items()}


EXERCISE = Exercise(
    title="Reduce in buckets, while backward goes on",
    parameters=("model", "bucket_bytes", "in_flight", "group"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: {"shards": mean_shards(case, r, BOTH), "gradients left": []}),
    trains=True,
    measured=True,
    forbidden=("torch.distributed.optim", "torch.distributed.fsdp"),
    tolerance=TOLERANCE,
    points={VALUES: 2, TECHNIQUE: 4},
    slips=(
        _times("sum for mean", "The shards are n times too large: divide what arrives by the number of ranks.",
               Case.group_size),
        _times("divided by the world", "Right for the whole world, too small in a group: divide by the number of ranks that "
                                       "took part, dist.get_world_size(group).",
               lambda case, r: case.group_size(r) / case.world_size),
        _times("divided twice", "The shards are n times too small: each bucket is divided by n once, when it has arrived.",
               lambda case, r: 1 / case.group_size(r)),
        _wrong("last pass only", "The shards hold the last backward pass only: add what arrives to the shard that is there.",
               lambda case, r, right: mean_shards(case, r, (LAST,))),
        _wrong("first pass twice", "The first backward pass is counted again in the second: set p.grad to None when its "
                                   "bucket leaves, else new gradients are added to it.",
               lambda case, r, right: _first_twice(case, r)),
        _wrong("another rank's shard", "Ranks hold each other's shards: rank r of the group keeps the r-th shard.",
               lambda case, r, right: right[case.members(r)[-1 - case.group_rank(r)]]["shards"]),  # dealt from the last on
    ),
)
