"""A hook a parameter: reduce-scatter its gradient as soon as it exists, keep the shard, free the rest."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.one_process import TOLERANCE, mean_gradients
from grader.exercises.shared.training_cases import with_batches
from grader.exercises.shared.zero_cases import odd_models, own_shard
from grader.judging.compare import ANYTHING
from grader.judging.exercise import Case, Draw, Exercise, Slip

PASSES = 2
FIRST, LAST = 0, PASSES - 1
Shards = dict[str, Tensor]


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    return odd_models(draw, grading, with_batches(draw, lambda n: 2, PASSES), "a tensor of 3 numbers")


def _shards(case: Case, rank: int, passes: Sequence[int] = (FIRST, LAST)) -> Shards:
    """This rank's pieces of the mean gradients, summed over these backward passes; of the gradients that exist."""
    total: dict[str, Tensor] = {}
    for number in passes:
        batches = [(xs[number], ys[number]) for xs, ys in zip(
            case.peers_inputs(rank, "xs"), case.peers_inputs(rank, "ys"), strict=True)]
        for name, gradient in mean_gradients(case, rank, batches).items():
            if gradient is not None:
                total[name] = total.get(name, 0) + gradient
    return {name: own_shard(case, rank, gradient.flatten()) for name, gradient in total.items()}


def _wrong(id: str, hint: str, shards: Callable[[Case, int, list[Any]], Shards]) -> Slip:
    """Wrong shards, whether gradients are left or not."""
    return Slip(id, hint, lambda case, r, right: {"shards": shards(case, r, right), "gradients left": ANYTHING})


EXERCISE = Exercise(
    title="Reduce-scatter as soon as it is there",
    parameters=("model", "group"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: {"shards": _shards(case, r), "gradients left": []}),
    trains=True,
    tolerance=TOLERANCE,
    slips=(
        _wrong("sum for mean", "The shards are n times too large: divide by the number of ranks.",
               lambda case, r, right: {name: shard * case.group_size(r) for name, shard in right[r]["shards"].items()}),
        _wrong("last pass only", "The shards hold the last backward pass only: gradients add up over micro-batches, so add "
                                 "to the shard that is there.", lambda case, r, right: _shards(case, r, (LAST,))),
        _wrong("first pass twice", "The first backward pass is counted again in the second: free p.grad, else new gradients "
                                   "are added to what was reduced already.",
               lambda case, r, right: _shards(case, r, (FIRST, FIRST, LAST))),
        _wrong("another rank's shard", "Ranks hold each other's shards: rank r of the group keeps the r-th piece.",
               lambda case, r, right: right[case.members(r)[-1 - case.group_rank(r)]]["shards"]),  # dealt from the last on
        _wrong("nothing kept", "The dictionary is empty: the hooks are to put the shards into the one that was returned.",
               lambda case, r, right: {}),
    ),
)
