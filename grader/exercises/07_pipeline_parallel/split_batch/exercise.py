"""A batch into micro-batches: pieces of one size along the first dim."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.pipeline_inputs import error_missing, error_without_sizes
from grader.judging.compare import same
from grader.judging.demands import only_calls
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import wrong_ranks

Split = Callable[[torch.Tensor, int], Sequence[torch.Tensor]]


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    m, rows = draw.integer(2, 4), draw.integer(5, 7)
    sizes = [((12, 12), 4), ((6, 5), 1), ((5, 3), 5), ((m * rows, 4), m), ((10, 8), 4), ((2, 6), 3)]
    sizes += [((6 * m, 3, 2), 3), ((m * rows + 1, 2), m)] * grading
    return [Case(f"{'×'.join(map(str, shape))} into {m} micro-batch{'es' * (m > 1)}",
                 ({"x": draw.tensor(*shape), "n_micro": m},)) for shape, m in sizes]


def _expected(case: Case, rank: int) -> dict[str, Any]:
    x, n_micro = case.inputs[rank].values()
    if len(x) % n_micro:
        return {"ValueError names": [len(x), n_micro]}
    return {"parts": list(x.chunk(n_micro))}


def _as(split: Split) -> Callable[[Look], bool]:
    return wrong_ranks(lambda look, r, found, _: same(found, {"parts": list(split(*look.case.inputs[r].values()))}))


EXERCISE = Exercise(
    title="Cut the batch into micro-batches",
    parameters=("x_BD", "n_micro"),
    make_cases=_cases,
    oracle=each_rank(_expected),
    points={VALUES: 2},
    technique=Technique(
        demands=(only_calls(id="communicates", hint="This is slicing: no message is needed."),),
        symptoms=(
        error_missing("Where the micro-batches do not divide the rows, raise ValueError: the mean of means would not be the "
                      "mean."),
        error_without_sizes("The error is raised, but it does not name the rows and the number of micro-batches: name "
                            "both."),
        Symptom("number for size", "The micro-batches have n_micro rows each: n_micro is how many there are, not how long.",
                _as(lambda x, m: x.split(m))),
        Symptom("dealt like cards", "Rows are dealt out like cards: a micro-batch is rows that follow one another.",
                _as(lambda x, m: [x[k::m] for k in range(m)])),
        Symptom("columns cut", "Columns were cut in place of rows: the batch is dim 0.", _as(lambda x, m: x.chunk(m, -1))),
        Symptom("whole batch each time", "Every micro-batch is the whole batch.", _as(lambda x, m: [x] * m)),
        Symptom("rows at a time", "Each micro-batch has one row only: there are n_micro of them, with B/n_micro rows each.",
                _as(lambda x, m: list(x.split(1))[:m])),
    ),
    ),
)
