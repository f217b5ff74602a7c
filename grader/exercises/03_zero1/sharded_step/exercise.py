"""ZeRO-1's step: reduce-scatter the gradients, update the own shard, all-gather the parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from grader.calling.training import make_optimizer
from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.shared.one_process import TOLERANCE
from grader.exercises.shared.zero1_demands import other_type
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, group_size, only_calls, results_waited
from grader.judging.exercise import Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, raised, unwaited, wrong_ranks
from utils.costs.formulas import bytes_sent_per_rank

STEPS, LR = 3, 0.05


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, length: int, optimizer: str) -> list[dict[str, Any]]:
        flat = draw.tensor(n * length, dtype=torch.float64) / 25
        return [{"flat": flat, "optimizer": optimizer, "lr": LR,
                 "gradients": [draw.tensor(n * length, dtype=torch.float64) / 25 for _ in range(STEPS)]} for _ in range(n)]

    sizes = [(1, 4), (2, draw.integer(2, 5)), (3, draw.integer(2, 4)), (4, draw.integer(1, 4))] + [(5, 2)] * grading
    cases = [Case(f"{ranks(n)}, {length} each, {optimizer}", tuple(inputs(n, length, optimizer)))
             for (n, length), optimizer in zip(sizes, ("AdamW", "AdamW", "SGD", "AdamW", "SGD"), strict=False)]
    cases.append(Case("4 ranks, 3 numbers and a zero, AdamW", tuple(map(_padded, inputs(4, 1, "AdamW")))))
    return [*cases, group_case(lambda n: inputs(n, 2, "AdamW"), "AdamW")]


def _padded(inputs: dict[str, Any]) -> dict[str, Any]:
    """The last number is padding: more ranks than parameters."""
    for flat in (inputs["flat"], *inputs["gradients"]):
        flat[-1] = 0
    return inputs


def _train(case: Case, rank: int, factor: float = 1.0, own: bool = False) -> torch.Tensor:
    """All parameters after plain steps on the mean gradient times `factor`; own: on this rank's gradient alone."""
    inputs = case.inputs[rank]
    flat = nn.Parameter(inputs["flat"].clone())
    optimizer = make_optimizer(inputs, [flat])
    for step in range(STEPS):
        parts = [one[step] for one in case.peers_inputs(rank, "gradients")]
        flat.grad = inputs["gradients"][step].clone() if own else torch.stack(parts).mean(0) * factor
        optimizer.step()
    return flat.detach()


def _result(case: Case, rank: int) -> dict[str, torch.Tensor]:
    flat = _train(case, rank)
    return {"flat": flat, "shard": flat.chunk(len(case.members(rank)))[case.group_rank(rank)].clone()}


def _bytes(look: Look, rank: int) -> float:
    total, n = look.case.inputs[rank]["flat"].nbytes, group_size(look, rank)
    return STEPS * (bytes_sent_per_rank("reduce_scatter", total, n) + bytes_sent_per_rank("all_gather", total, n))


def _shard_as(other: Callable[[Look, int], torch.Tensor]) -> Callable[[Look], bool]:
    """Every wrong rank's shard is its part of other(look, rank), which is not the right one."""

    def test(look: Look, rank: int, found: Any, expected: Any) -> bool:
        part = other(look, rank).chunk(group_size(look, rank))[look.case.group_rank(rank)]
        return isinstance(found, dict) and same(found["shard"], part) and not same(part, expected["shard"])

    return wrong_ranks(test)


def _by_sgd(look: Look) -> bool:
    """AdamW hardly feels the scale of a gradient."""
    return look.case.inputs[0]["optimizer"] == "SGD"


def _stale(look: Look, rank: int, found: Any, expected: Any) -> bool:
    """The own part is right in the flat parameters or in the shard, the others are those of the start."""
    return isinstance(found, dict) and same(found["shard"], expected["shard"], 1e-6) and not same(
        found["flat"], expected["flat"], 1e-6)


EXERCISE = Exercise(
    title="A step of ZeRO-1",
    parameters=("flat_P", "gradient_P", "shard_C", "optimizer", "group"),
    make_cases=_cases,
    oracle=each_rank(_result),
    trains=True,
    tolerance=TOLERANCE,
    technique=Technique(
        demands=(
        only_calls("reduce_scatter", "all_gather", hint=(
            "Reduce-scatter the gradients, all-gather the parameters: those two are all the communication. An all-reduce "
            "brings each rank gradients that it does not need.")),
        bytes_sent(_bytes, "2(n−1)/n of the parameters' bytes a step",
                   "Right, but more was sent than one reduce-scatter and one all-gather of Ψ elements: that is as much as "
                   "data parallelism's all-reduce, and enough."),
        results_waited(),
    ),
        symptoms=(
        group_ignored("The ranks of other groups are touched: pass group=group to both calls."),
        unwaited(),
        Symptom("sum for mean", "The shard was updated with the sum of the gradients: divide by the number of ranks.",
                lambda look: _by_sgd(look) and _shard_as(lambda look, r: _train(look.case, r, group_size(look, r)))(look)),
        Symptom("own gradient", "Each rank updated its shard with its own gradient: the shard's gradient is the mean over "
                                "ranks, which the reduce-scatter brings.",
                _shard_as(lambda look, r: _train(look.case, r, own=True))),
        Symptom("not updated", "The shard is what it was: put the reduced gradient into shard_C.grad and call "
                               "optimizer.step().", _shard_as(lambda look, r: look.case.inputs[r]["flat"])),
        Symptom("parameters not gathered", "Each rank's shard is updated, but flat_P is not, or not all of it: all-gather "
                                           "the updated parameters into it, in place (flat_P = … would be another tensor). "
                                           "Gathered gradients, as some notes have them, update nothing.",
                wrong_ranks(_stale)),
        raised("NoneType", "shard_C.grad is None until you give it a tensor (torch.empty_like(shard_C)); and the output "
                           "comes before the input: dist.reduce_scatter_single(output, input, group=group).", "no output"),
        other_type(),
    ),
    ),
)
