"""A hook a parameter: reduce-scatter its gradient as soon as it exists, keep the shard, free the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from grader.exercises.shared.cases import each_rank, pieces
from grader.exercises.shared.one_process import TOLERANCE, mean_gradients
from grader.exercises.shared.training_cases import with_batches
from grader.exercises.shared.zero1_demands import other_type
from grader.exercises.shared.zero2_demands import misfit, never_all_gradients, odd_models, padded_bytes
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, group_size, only_calls, results_waited
from grader.judging.exercise import Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, raised, unwaited, wrong_ranks
from utils.costs.formulas import bytes_sent_per_rank

PASSES = 2


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    return odd_models(draw, grading, with_batches(draw, lambda n: 2, PASSES))


def _gradients(case: Case, rank: int, passes: Sequence[int] = range(PASSES)) -> dict[str, torch.Tensor]:
    """The mean gradients, summed over backward passes; those that exist."""
    found: dict[str, torch.Tensor] = {}
    for step in passes:
        batches = zip((xs[step] for xs in case.peers_inputs(rank, "xs")), (ys[step] for ys in case.peers_inputs(rank, "ys")),
                      strict=True)
        for name, gradient in mean_gradients(case, rank, list(batches)).items():
            if gradient is not None:
                found[name] = found[name] + gradient if name in found else gradient
    return found


def _shards(case: Case, rank: int, factor: float = 1.0, passes: Sequence[int] = range(PASSES)) -> dict[str, torch.Tensor]:
    n, place = len(case.members(rank)), case.group_rank(rank)
    return {name: pieces(gradient.flatten() * factor, n)[place] for name, gradient in _gradients(case, rank, passes).items()}


def _as(other: Callable[[Look, int], dict[str, torch.Tensor]]) -> Callable[[Look], bool]:
    """The shards of every wrong rank are those that another way gives, and not the right ones."""

    def test(look: Look, rank: int, found: Any, expected: Any) -> bool:
        instead = other(look, rank)
        return isinstance(found, dict) and same(found["shards"], instead) and not same(instead, expected["shards"])

    return wrong_ranks(test)


def _reversed(look: Look, rank: int) -> dict[str, torch.Tensor]:
    """The pieces dealt out from the last rank to the first."""
    n, place = group_size(look, rank), look.case.group_rank(rank)
    return {name: pieces(gradient.flatten(), n)[n - 1 - place] for name, gradient in _gradients(look.case, rank).items()}


def _first_twice(look: Look, rank: int) -> dict[str, torch.Tensor]:
    first, second = (_shards(look.case, rank, passes=(number,)) for number in range(PASSES))
    return {name: 2 * first[name] + second[name] for name in first}


def _sent(look: Look, rank: int) -> float:
    return PASSES * bytes_sent_per_rank("reduce_scatter", padded_bytes(look, rank), group_size(look, rank))


def _left(look: Look, rank: int, found: Any, expected: Any) -> bool:
    return isinstance(found, dict) and bool(found["gradients left"]) and same(found["shards"], expected["shards"])


EXERCISE = Exercise(
    title="Reduce-scatter as soon as it is there",
    parameters=("model", "group"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: {"shards": _shards(case, r), "gradients left": []}),
    trains=True,
    tolerance=TOLERANCE,
    technique=Technique(
        demands=(
        only_calls("reduce_scatter", hint="dist.reduce_scatter_single is all the communication that this exercise needs: an "
                   "all-reduce would bring every rank the whole gradient."),
        never_all_gradients(),
        bytes_sent(_sent, "(n−1)/n of the gradients' bytes a backward pass",
                   "Right, but gradients were reduced more than once a backward pass: a tied weight has one gradient."),
        results_waited(),
    ),
        symptoms=(
        group_ignored("The ranks of other groups are touched: pass group=group."),
        unwaited(),
        Symptom("sum for mean", "The shards are n times too large: divide by the number of ranks.",
                _as(lambda look, r: _shards(look.case, r, group_size(look, r)))),
        Symptom("last pass only", "The shards hold the last backward pass only: gradients add up over micro-batches, so "
                                  "add to the shard that is there.",
                _as(lambda look, r: _shards(look.case, r, passes=(PASSES - 1,)))),
        Symptom("first pass twice", "The first backward pass is counted again in the second: free p.grad, else new "
                                    "gradients are added to what was reduced already.", _as(_first_twice)),
        Symptom("gradients left", "The shards are right, but gradients still stand after the backward pass: set p.grad to "
                                  "None in the hook.", wrong_ranks(_left)),
        Symptom("another rank's shard", "Ranks hold each other's shards: rank r of the group keeps the r-th piece.",
                _as(_reversed)),
        other_type(),
        misfit(),
        raised("require grad", "A frozen parameter takes no hook: only those with requires_grad have a gradient.",
               "frozen hooked"),
        raised("KeyError", "In the first pass a parameter has no shard yet to add to.", "first pass"),
        Symptom("nothing kept", "The dictionary is empty: the hooks are to put the shards into the one that was returned.",
                wrong_ranks(lambda look, r, found, _: isinstance(found, dict) and not found["shards"])),
    ),
    ),
)
