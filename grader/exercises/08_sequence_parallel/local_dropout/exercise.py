"""Dropout on a piece of the sequence: a mask of its own on every rank, and nobody else's random numbers disturbed."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.shared.sequence_inputs import drawn_by, keep_mask
from grader.exercises.shared.split_inputs import first_wrong_slip
from grader.judging.exercise import Case, Draw, Exercise, Slip


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, s: int, b: int, d: int, p: float, dtype: torch.dtype = torch.float64,
               met: bool = False) -> tuple[dict[str, Any], ...]:
        """met: p is near the one that is given, and a number that the last rank draws."""
        seed = draw.integer(2, 1000)
        if met:
            drawn = drawn_by((s, b, d), seed * n + n - 1).flatten()
            p = drawn[(drawn - p).abs().argmin()].item()
        divisor = 7 if dtype == torch.float64 else 1
        return tuple({"x": draw.tensor(s, b, d, dtype=dtype) / divisor, "p": p, "seed": seed,
                      "weights": draw.tensor(s, b, d, dtype=dtype) / divisor} for _ in range(n))

    sizes = [(1, 3, 2, 7, 0.5), (4, 5, 2, 9, 0.1), (2, 3, 2, 5, 0.0)]
    sizes += [(5, 2, 3, 8, 0.75), (3, 7, 2, 5, 0.5)] if grading else []
    cases = [Case(f"{ranks(n)}, {s}×{b}×{d}, p = {p}", inputs(n, s, b, d, p)) for n, s, b, d, p in sizes]
    cases.append(Case("2 ranks, p is one of the numbers drawn", inputs(2, draw.integer(2, 5), 3, 8, 0.25, met=True)))
    return [*cases, Case("2 ranks, bfloat16, p = 0.25", inputs(2, 4, 2, 8, 0.25, torch.bfloat16)),
            group_case(lambda n: inputs(n, 3, 2, 8, 0.5), "3×2×8, p = 0.5")]


def _mask(case: Case, rank: int, seed: int | None = None) -> Tensor:
    """What this rank keeps; by its own seed, if no other is given."""
    inputs = case.inputs[rank]
    own_seed = inputs["seed"] * case.group_size(rank) + case.group_rank(rank)
    return keep_mask(inputs["x"].shape, inputs["p"], own_seed if seed is None else seed)


def _drawn(case: Case, rank: int) -> Tensor:
    """What this rank compares with p."""
    inputs = case.inputs[rank]
    return drawn_by(inputs["x"].shape, inputs["seed"] * case.group_size(rank) + case.group_rank(rank))


def _right(case: Case, rank: int) -> dict[str, Any]:
    inputs, mask = case.inputs[rank], _mask(case, rank)
    y, dx = (inputs[name] * mask * _by_1_minus_p(inputs["p"]) for name in ("x", "weights"))
    return {"y": y, "again": y, "dx": dx}


def _by_p(p: float) -> float:
    """What is kept, divided by p."""
    return 1 / p if p else 1.0


def _by_1_minus_p(p: float) -> float:
    return 1 / (1 - p)


def _seeded(id: str, hint: str, seed: Callable[[int, Case, int], int]) -> Slip:
    """The generator's seed is seed(the given one, case, rank)."""

    def wrong(case: Case, rank: int, y: Tensor) -> Tensor:
        inputs = case.inputs[rank]
        mask = _mask(case, rank, seed(inputs["seed"], case, rank))
        return inputs["x"] * mask * _by_1_minus_p(inputs["p"])

    return first_wrong_slip(id, hint, "y", wrong)


def _kept(id: str, hint: str, kept: Callable[[Tensor, float], Tensor]) -> Slip:
    """Kept is where kept(the numbers drawn, p)."""
    return first_wrong_slip(id, hint, "y", lambda case, rank, y: case.inputs[rank]["x"] * kept(
        _drawn(case, rank), case.inputs[rank]["p"]) * _by_1_minus_p(case.inputs[rank]["p"]))


def _scaled(id: str, hint: str, scale: Callable[[float], float], exchanged: bool = False) -> Slip:
    """What is kept is multiplied by scale(p); exchanged: what is to be dropped is kept."""

    def wrong(case: Case, rank: int, y: Tensor) -> Tensor:
        inputs, mask = case.inputs[rank], _mask(case, rank)
        return inputs["x"] * (~mask if exchanged else mask) * scale(inputs["p"])

    return first_wrong_slip(id, hint, "y", wrong)


EXERCISE = Exercise(
    title="Dropout on a piece",
    parameters=("x_PBD", "p", "seed", "group"),
    make_cases=_cases,
    oracle=each_rank(_right),
    tolerance=1e-9,
    slips=(
        *(_seeded("same mask on all ranks", "All ranks have one mask. But their positions are different ones, and their "
                                            "masks must be independent: seed·n + r.", seed)
          for seed in (lambda seed, case, rank: seed, lambda seed, case, rank: seed * case.group_size(rank))),
        _seeded("seeds meet", "With seed + r, rank 1 at one seed has the mask of rank 0 at the next: seed·n + r never meets "
                              "another.", lambda seed, case, rank: seed + case.group_rank(rank)),
        _seeded("seed and rank exchanged", "The seed is seed·n + r: here seed and rank have changed places, and different "
                "seeds and ranks meet.",
                lambda seed, case, rank: case.group_rank(rank) * case.group_size(rank) + seed),
        _kept("strictly greater", "A number that is exactly p is kept: at least p means ≥, not >.", lambda x, p: x > p),
        *(_kept("compared with 1 − p", "The numbers drawn are compared with 1 − p, which makes another mask: keep where a "
                "number is at least p.", kept) for kept in (lambda x, p: x > 1 - p, lambda x, p: x < 1 - p)),
        _seeded("rank of the world", "With a group that is not the whole world take dist.get_rank(group) and "
                                     "dist.get_world_size(group).",
                lambda seed, case, rank: seed * case.world_size + rank),
        _scaled("not scaled", "What is kept must be divided by 1 − p, so that the expected value stays.", lambda p: 1.0),
        _scaled("scaled by p", "What is kept is divided by 1 − p, the share that is kept, not by p.", _by_p),
        *(_scaled("kept and dropped exchanged", "p is the share that is dropped: keep where the number drawn is at least p.",
                  scale, exchanged=True) for scale in (_by_1_minus_p, _by_p)),
    ),
)
