"""A hook a parameter: reduce-scatter its gradient as soon as it exists, keep the shard, free the rest."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.one_process import TOLERANCE
from grader.exercises.shared.training_cases import weighed_case, with_batches
from grader.exercises.shared.zero_cases import Shards, mean_shards, odd_models, with_inputs
from grader.judging.compare import ANYTHING
from grader.judging.exercise import Case, Draw, Exercise, Slip

PASSES = 2
FIRST, LAST = 0, PASSES - 1
BOTH = FIRST, LAST
TINY = "a tensor of 3 elements"


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(model: str, n: int, seed: int) -> list[dict[str, Any]]:
        return with_batches(draw, lambda n: 2, PASSES, turned=model == "frozen")(model, n, seed)

    cases = [_cleared(case) if case.name.endswith(TINY) else case for case in odd_models(draw, grading, inputs, TINY)]
    return [*cases, *weighed_case(inputs, grading, "wider")]


def _cleared(case: Case) -> Case:
    """The same; the dictionary is emptied between the passes."""
    return replace(with_inputs(case, cleared=True), name=f"{case.name}, cleared between two passes")


def _passes(case: Case, rank: int) -> Sequence[int]:
    """Which count."""
    return (LAST,) if case.inputs[rank].get("cleared") else BOTH


def _zeros_in_front(case: Case, rank: int, row: Tensor) -> Tensor:
    n = case.group_size(rank)
    return F.pad(row, (-len(row) % n, 0)).view(n, -1)[case.group_rank(rank)]


def _dealt(case: Case, rank: int, row: Tensor) -> Tensor:
    n = case.group_size(rank)
    return F.pad(row, (0, -len(row) % n)).view(-1, n)[:, case.group_rank(rank)]


def _both_passes(case: Case, rank: int, both: Callable[[Tensor, Tensor], Tensor]) -> Shards:
    """both(the first pass's, the last one's), where there are two; anything where the first was thrown away."""
    if _passes(case, rank) != BOTH:
        return ANYTHING
    first, last = (mean_shards(case, rank, (number,)) for number in (FIRST, LAST))
    return {name: both(shard, last[name]) if name in last else shard for name, shard in first.items()}


def _wrong(id: str, hint: str, shards: Callable[[Case, int, list[Any]], Shards]) -> Slip:
    """Wrong shards, whether gradients are left or not."""
    return Slip(id, hint, lambda case, r, right: {"shards": shards(case, r, right), "gradients left": ANYTHING})


EXERCISE = Exercise(
    title="Reduce-scatter each gradient as soon as it is there",
    parameters=("model", "group"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: {"shards": mean_shards(case, r, _passes(case, r)), "gradients left": []}),
    trains=True,
    measured=True,
    tolerance=TOLERANCE,
    slips=(
        _wrong("sum for mean", "The shards are n times too large: divide by the number of ranks.",
               lambda case, r, right: {name: shard * case.group_size(r) for name, shard in right[r]["shards"].items()}),
        _wrong("divided by the world", "Right for the whole world, too small in a group: divide by the number of ranks that "
                                       "took part, dist.get_world_size(group).",
               lambda case, r, right: {name: shard * case.group_size(r) / case.world_size
                                       for name, shard in right[r]["shards"].items()}),
        _wrong("mean over passes", "Gradients of several passes add up, as in p.grad: the mean is over ranks only.",
               lambda case, r, right: _both_passes(case, r, lambda first, last: (first + last) / 2)),
        _wrong("divided again", "Each pass divides what was kept before once more: divide the new shard, then add it.",
               lambda case, r, right: _both_passes(case, r, lambda first, last: first / case.group_size(r) + last)),
        _wrong("zeros in front", "The padding comes at the end, behind the elements: F.pad(flat, (0, …)).",
               lambda case, r, right: mean_shards(case, r, _passes(case, r), cut=_zeros_in_front)),
        _wrong("every n-th", "Dealt out in turn: a shard is one slice of the flat gradient, not every n-th element.",
               lambda case, r, right: mean_shards(case, r, _passes(case, r), cut=_dealt)),
        _wrong("last pass only", "The shards hold the last backward pass only: gradients add up over micro-batches, so add "
                                 "to the shard that is there.",
               lambda case, r, right: _both_passes(case, r, lambda first, last: last)),
        _wrong("first pass twice", "The first backward pass is counted again in the second: free p.grad, else new gradients "
                                   "are added to what was reduced already.",
               lambda case, r, right: _both_passes(case, r, lambda first, last: 2 * first + last)),
        _wrong("not begun anew", "The dictionary was cleared between two passes, and the shards still hold the first one: "
                                 "add to what is in the dictionary, not to sums of your own.",
               lambda case, r, right: mean_shards(case, r, BOTH)),
        _wrong("another rank's shard", "Ranks hold each other's shards: rank r of the group keeps the r-th shard.",
               lambda case, r, right: right[case.members(r)[-1 - case.group_rank(r)]]["shards"]),  # dealt from the last on
        _wrong("nothing kept", "The dictionary is empty: the hooks are to put the shards into the one that was returned.",
               lambda case, r, right: {}),
    ),
)
