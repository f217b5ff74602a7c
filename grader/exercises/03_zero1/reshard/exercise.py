"""A sharded checkpoint, saved by some ranks and loaded by another number of them."""

from collections.abc import Sequence

import torch
from torch import Tensor

from grader.exercises.shared.cases import each_rank, pieces
from grader.exercises.shared.formula_cases import single
from grader.judging.exercise import VALUES, Case, Draw, Exercise


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    cases = []
    wanted = ((12, 4, 2), (10, 4, 2), (10, 3, 4), (5, 4, 1), (9, 3, 4), (draw.integer(20, 30), 2, 3), (3, 2, 4), (7, 1, 3))
    for n_elements, old, new in wanted:
        state = [draw.tensor(n_elements, dtype=dtype) for dtype in (torch.bfloat16, torch.float64)]
        state[0][-1] = 0  # a number like any other
        momenta, variances = (pieces(tensor, old) for tensor in state)
        saved = [{"momentum": momentum, "variance": variance}
                 for momentum, variance in zip(momenta, variances, strict=True)]
        cases += [single(f"{n_elements} elements, {old} → rank {rank} of {new}",
                         saved=saved, n_elements=n_elements, n_ranks=new, rank=rank) for rank in sorted({0, new - 1})]
    return cases


def _loaded(case: Case, rank: int) -> dict[str, Tensor]:
    saved, n_elements, n_ranks, new_rank = (case.inputs[rank][name] for name in ("saved", "n_elements", "n_ranks", "rank"))
    return {name: pieces(torch.cat([shards[name] for shards in saved])[:n_elements], n_ranks)[new_rank]
            for name in saved[0]}


EXERCISE = Exercise(
    title="Load a sharded checkpoint on another number of ranks",
    parameters=("saved", "n_elements", "n_ranks", "rank"),
    make_cases=_cases,
    oracle=each_rank(_loaded),
    points={VALUES: 4},
)
