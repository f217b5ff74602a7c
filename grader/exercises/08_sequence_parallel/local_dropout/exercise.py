"""Dropout on a piece of the sequence: a mask of its own on every rank, and nobody else's random numbers disturbed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.shared.sequence_inputs import part, random_state_kept
from grader.judging.compare import same
from grader.judging.demands import only_calls
from grader.judging.exercise import Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import wrong_ranks

PARTS = ("y", "again", "dx")


def keep_mask(shape: Sequence[int], p: float, seed: int, rank: int, n: int, own_seed: Callable = lambda s, r, n: s * n + r,
              strict: bool = False) -> Tensor:
    """What rank r of n keeps: True where a number drawn uniformly from its own generator is at least p."""
    drawn = torch.rand(tuple(shape), generator=torch.Generator().manual_seed(own_seed(seed, rank, n)))
    return drawn < p if strict else drawn >= p


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, s: int, b: int, d: int, p: float, dtype: torch.dtype = torch.float64) -> tuple[dict[str, Any], ...]:
        seed = draw.integer(2, 1000)
        return tuple({"x": draw.tensor(s, b, d, dtype=dtype), "p": p, "seed": seed,
                      "weights": draw.tensor(s, b, d, dtype=dtype)} for _ in range(n))

    sizes = [(1, 3, 2, 7, 0.5), (2, draw.integer(2, 5), 3, 8, 0.25), (4, 5, 2, 9, 0.1), (2, 3, 2, 5, 0.0)]
    sizes += [(5, 2, 3, 8, 0.75), (3, 7, 2, 5, 0.5)] * grading
    cases = [Case(f"{ranks(n)}, {s}×{b}×{d}, p = {p}", inputs(n, s, b, d, p)) for n, s, b, d, p in sizes]
    cases.append(Case("2 ranks, bfloat16, p = 0.25", inputs(2, 4, 2, 8, 0.25, torch.bfloat16)))
    cases.append(group_case(lambda n: inputs(n, 3, 2, 8, 0.5), "3×2×8, p = 0.5"))
    return cases


def _plain(case: Case, rank: int, scale: Callable[[float], float] = lambda p: 1 / (1 - p), global_rank: bool = False,
           dx_scale: Callable[[float], float] | None = None, **mask: Any) -> dict[str, Any]:
    """Wrong ways: another scale; the rank in the world; another seed, or what is kept and what not exchanged."""
    inputs, n = case.inputs[rank], len(case.members(rank))
    r, n = (rank, case.world_size) if global_rank else (case.group_rank(rank), n)
    keep = keep_mask(inputs["x"].shape, inputs["p"], inputs["seed"], r, n, **mask)
    y = inputs["x"] * keep * scale(inputs["p"])
    return {"y": y, "again": y, "dx": inputs["weights"] * keep * (dx_scale or scale)(inputs["p"])}


def _as(**other: Any) -> Callable[[Look], bool]:
    return wrong_ranks(lambda look, r, found, expected: not same(found["y"], expected["y"]) and same(
        found["y"], _plain(look.case, r, **other)["y"]))


def _again_differs(look: Look) -> bool:
    return any(isinstance(found, dict) and not same(found["again"], found["y"]) for _, found, _ in look.pairs())


EXERCISE = Exercise(
    title="Dropout on a piece",
    parameters=("x_sBD", "p", "seed", "group"),
    make_cases=_cases,
    oracle=each_rank(_plain),
    tolerance=1e-9,
    technique=Technique(
        demands=(
        only_calls(id="communicates", hint="Every rank can compute its seed from its rank: no message is needed."),
        random_state_kept("The masks are right, but torch's own random state was changed, and with it every random number "
                          "that comes after: draw from a torch.Generator of your own."),
    ),
        symptoms=(
        Symptom("mask redrawn", "Called twice with the same seed it gives two masks: a forward pass that is computed again, "
                                "as in recomputation, would not be the same one. Draw from a new generator with the seed.",
                _again_differs),
        Symptom("same mask on all ranks", "All ranks have one mask. But their positions are different ones, and their masks "
                                          "must be independent: seed·n + r.",
                lambda look: len(look.working) > 1 and (_as(own_seed=lambda s, r, n: s)(look)
                                                             or _as(own_seed=lambda s, r, n: s * n)(look))),
        Symptom("seeds meet", "With seed + r, rank 1 at one seed has the mask of rank 0 at the next: seed·n + r never meets "
                              "another.", _as(own_seed=lambda s, r, n: s + r)),
        Symptom("rank of the world", "With a group that is not the whole world take dist.get_rank(group) and "
                                     "dist.get_world_size(group).",
                lambda look: look.case.groups is not None and _as(global_rank=True)(look)),
        Symptom("not scaled", "What is kept must be divided by 1 − p, so that the expected value stays.",
                _as(scale=lambda p: 1.0)),
        Symptom("scaled by p", "What is kept is divided by 1 − p, the share that is kept, not by p.",
                _as(scale=lambda p: 1 / p if p else 1.0)),
        Symptom("kept and dropped exchanged", "p is the share that is dropped: keep where the number drawn is at least p.",
                lambda look: _as(strict=True)(look) or _as(strict=True, scale=lambda p: 1 / p if p else 1.0)(look)),
        Symptom("no gradient", "The gradient of x is wrong or missing: multiply x by the mask, do not write into x.data.",
                part("dx", PARTS)),
        Symptom("wrong result", "y is not x where torch.rand(x.shape, generator=…) ≥ p, divided by 1 − p, and 0 elsewhere.",
                part("y", PARTS)),
    ),
    ),
)
