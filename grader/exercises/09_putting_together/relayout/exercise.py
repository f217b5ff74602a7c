"""A checkpoint saved by the ranks of one mesh, loaded by a rank of another."""

import math
from collections.abc import Sequence

import torch

from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.formula_cases import single
from grader.exercises.shared.meshes import in_words, sizes_of
from grader.exercises.shared.model_states import State, drawn_state, of_rank
from grader.judging.exercise import VALUES, Case, Draw, Exercise
from utils.models.shards import cut_dim


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    wanted = [((1, 2, 2), (1, 1, 4), 2, (0, 3)), ((2, 1, 2), (1, 3, 1), 3, (0, 1, 2)), ((1, 3, 1), (2, 2, 2), 5, (3, 4)),
              ((2, 2, 2), (2, 2, 2), 3, (6,)), ((1, 1, 1), (1, 1, 1), 1, (0,))]
    wanted += [((1, 1, 4), (3, 2, 1), 4, (3, 2)), ((2, 3, 2), (1, 2, 4), 4, (1, 6))] * grading
    cases = []
    for before, after, n_layers, ranks in wanted:
        old, new = sizes_of(before), sizes_of(after)
        whole = drawn_state(draw, n_layers)
        saved = [of_rank(whole, n_layers, old, rank) for rank in range(math.prod(before))]
        name = f"{in_words(old)} → {in_words(new)}, {n_layers} layer{'s' * (n_layers > 1)}, rank "
        cases += [single(f"{name}{rank}", saved=saved, old=old, new=new, n_layers=n_layers, rank=rank) for rank in ranks]
    return cases


def _right(case: Case, rank: int) -> State:
    """Put together from the files of the first replica, then cut."""
    inputs = case.inputs[rank]
    saved, whole = inputs["saved"][:inputs["old"]["pp"] * inputs["old"]["tp"]], {}
    for name in dict.fromkeys(name for state in saved for name in state):
        pieces = [state[name] for state in saved if name in state]
        whole[name] = pieces[0] if cut_dim(name) is None else torch.cat(pieces, cut_dim(name))
    return of_rank(whole, inputs["n_layers"], inputs["new"], inputs["rank"])


EXERCISE = Exercise(
    title="From one layout to another",
    parameters=("saved", "old", "new", "n_layers", "rank"),
    make_cases=_cases,
    oracle=each_rank(_right),
    points={VALUES: 4},
)
