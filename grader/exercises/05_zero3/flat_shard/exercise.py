"""A layer's parameters in one flat row, and this rank's shard of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from grader.exercises.shared.cases import TWO_GROUPS, each_rank, pieces, ranks
from grader.judging.compare import same
from grader.judging.demands import group_size, only_calls
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, raised, wrong_ranks


def flat_row(parameters: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.cat([one.flatten() for one in parameters])


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def of(name: str, n: int, *shapes: tuple[int, ...], groups=None) -> Case:
        parameters = [draw.tensor(*shape, dtype=torch.float64) for shape in shapes]
        return Case(name, ({"parameters": parameters},) * n, groups)

    cases = [of(f"{ranks(n)}, {k}×3 and {k}", n, (k, 3), (k,)) for n, k in (
        (1, 2), (2, 2 * draw.integer(1, 3) + 1), (3, 3 * draw.integer(1, 2) + 2), (4, draw.integer(5, 7)))]
    few = of("4 ranks, 3 numbers", 4, (2, 1), (1,))
    return [*cases, few, of("groups (1,3,4) and (0,2), 7×2", 5, (7, 2), groups=TWO_GROUPS)] + [
        of("5 ranks, 4×4 and 4 and 2", 5, (4, 4), (4,), (2,))] * grading


def _shard(case: Case, rank: int) -> dict[str, Any]:
    shard = pieces(flat_row(case.inputs[rank]["parameters"]), len(case.members(rank)))[case.group_rank(rank)].clone()
    return {"shard": shard, "bytes kept alive": shard.nbytes}


def _as(other: Callable[[list[torch.Tensor], int, int], torch.Tensor]) -> Callable[[Look], bool]:
    """What every wrong rank holds is other(parameters, n, rank in the group)."""
    return wrong_ranks(lambda look, r, found, _: isinstance(found, dict) and same(found["shard"], other(
        look.case.inputs[r]["parameters"], group_size(look, r), look.case.group_rank(r))))


def _view(look: Look, rank: int, found: Any, expected: Any) -> bool:
    return isinstance(found, dict) and same(found["shard"], expected["shard"])


EXERCISE = Exercise(
    title="One flat shard of a layer",
    parameters=("parameters", "group"),
    make_cases=_cases,
    oracle=each_rank(_shard),
    trains=True,
    points={VALUES: 2},
    technique=Technique(
        demands=(only_calls(id="communicates", hint="Every rank has the whole parameters here and cuts its own part out: no "
                        "message is needed."),),
        symptoms=(
        group_ignored("Right for the whole world, wrong in a group: ask dist.get_rank(group) and "
                      "dist.get_world_size(group)."),
        Symptom("whole kept alive", "The numbers are right, but the shard is a view: as long as it lives, so does the "
                                    "whole row that it was cut from, and nothing is saved. Copy it (clone()).",
                wrong_ranks(_view)),
        Symptom("group ignored", "Right for the whole world, wrong in a group: ask dist.get_rank(group) and "
                                 "dist.get_world_size(group).",
                lambda look: look.case.groups is not None and wrong_ranks(lambda look, r, found, _: same(
                    found["shard"], [*pieces(flat_row(look.case.inputs[r]["parameters"]), look.case.world_size)][r]))(look)),
        Symptom("not padded", "The last shards are shorter than the others, and an all-gather needs equal ones: pad the row "
                              "with zeros at its end until n divides its length (F.pad).",
                lambda look: _as(lambda ps, n, r: flat_row(ps).tensor_split(n)[r])(look) or _as(
                    lambda ps, n, r: [*flat_row(ps).split(-(-len(flat_row(ps)) // n)), *[flat_row(ps)[:0]] * n][r])(look)),
        Symptom("tail lost", "The last numbers are on no rank: the row's length must be rounded up to a multiple of n, not "
                             "down.", _as(lambda ps, n, r: flat_row(ps)[:len(flat_row(ps)) // n * n].view(n, -1)[r])),
        Symptom("each by itself", "Each parameter is padded and cut by itself: here the whole layer is one row, padded "
                                  "once, so that one message brings all of it.",
                _as(lambda ps, n, r: torch.cat([pieces(p.flatten(), n)[r] for p in ps]))),
        Symptom("padded in front", "The zeros stand before the numbers: pad at the end, F.pad(flat, (0, k)).",
                _as(lambda ps, n, r: pieces(flat_row(ps).flip(0), n)[n - 1 - r].flip(0))),
        Symptom("dealt like cards", "The numbers are dealt out like cards, every n-th one: a shard is one piece.",
                _as(lambda ps, n, r: torch.cat(pieces(flat_row(ps), n))[r::n])),
        raised("out of range", "There may be fewer numbers than ranks: pad first, then cut into n pieces.", "too few"),
    ),
    ),
)
