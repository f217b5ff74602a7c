"""VocabularyParallelEmbedding (challenge): the rows of an embedding split over the ranks, one all-reduce to look up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from grader.calling.splitting_gpt import BACKWARD, FORWARD, REFUSED
from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.shared.own_parts import (
    all_reduces,
    not_refused,
    only_all_reduce,
    own_numbers,
    own_storage,
    refused,
    wrong_in,
)
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, group_size, results_waited
from grader.judging.exercise import Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, raised, unwaited
from utils.costs.formulas import bytes_sent_per_rank

DIM, TOLERANCE = 3, 1e-6
PARTS = ("weight", "y", "dweight")


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, rows: int, shape: tuple[int, ...], dtype: str = "float64") -> list[dict[str, Any]]:
        kind, vocabulary = getattr(torch, dtype), n * rows
        ids = torch.arange(torch.Size(shape).numel()).view(shape) * draw.integer(5, 9) * vocabulary // 7 % vocabulary
        ids.view(-1)[:2] = torch.tensor([0, vocabulary - 1])
        return [{"table": draw.tensor(vocabulary, DIM).to(kind), "ids": ids, "weights": draw.tensor(*shape, DIM).to(kind),
                 "sizes": [vocabulary, n]}] * n

    sizes = [(1, 5, (2, 3)), (2, 3, (7,)), (4, 5, (3, 5))] + [(3, 2, (2, 3, 2))] * grading
    cases = [Case(f"{ranks(n)}, {n * rows} rows, ids {list(shape)}", tuple(inputs(n, rows, shape)))
             for n, rows, shape in sizes]
    cases.append(Case("3 ranks, 12 rows, float32", tuple(inputs(3, 4, (2, 7), "float32"))))
    groups = group_case(lambda n: inputs(n, 3, (2, 4)), "3 rows each")
    odd = [{**one, "table": draw.tensor(7, DIM, dtype=torch.float64), "ids": torch.tensor([0, 1]), "sizes": [7, 2]}
           for one in inputs(2, 3, (2,))]
    return [*cases, groups, Case("2 ranks, 7 rows: refused", tuple(odd))]


def _plain(case: Case, rank: int, every_rank_looks_up: bool = False, times: int = 1, in_turn: bool = False,
           only: bool = False) -> dict[str, Any]:
    """One process. Wrong ways: foreign ids look up row id % P of every rank; gradients `times` over; rows r, r + n, …;
    the own ids only."""
    inputs, n, r = case.inputs[rank], len(case.members(rank)), case.group_rank(rank)
    if len(inputs["table"]) % n:
        return {REFUSED: inputs["sizes"]}
    rows = len(inputs["table"]) // n
    own = slice(r, None, n) if in_turn else slice(r * rows, (r + 1) * rows)
    table, ids = inputs["table"].clone().requires_grad_(), inputs["ids"]
    y: Tensor = table[ids]
    if every_rank_looks_up:
        y = sum(table[ids % rows + member * rows] for member in range(n))
    if only:
        y = y * (ids // rows == r)[..., None]
    (y * inputs["weights"]).sum().backward()
    return {"weight": inputs["table"][own].clone(), "y": y.detach(), "dweight": times * table.grad[own].clone()}


def _result_bytes(look: Look, rank: int) -> int:
    return look.case.inputs[rank]["weights"].nbytes


def _sent(look: Look, rank: int) -> float:
    return bytes_sent_per_rank("all_reduce", 0 if refused(look) else _result_bytes(look, rank), group_size(look, rank))


def _when(part: str, **other: Any) -> Callable[[Look], bool]:
    """This part is the first wrong one; if other keywords for _plain are given: and it is what these give."""
    return wrong_in(part, PARTS, lambda look, r, found: not other or same(
        found, _plain(look.case, r, **other)[part], TOLERANCE), TOLERANCE)


def _gradient_times_n(look: Look) -> bool:
    return wrong_in("dweight", PARTS, lambda look, r, found: same(
        found, _plain(look.case, r, times=group_size(look, r))["dweight"]))(look)


EXERCISE = Exercise(
    title="(c) An embedding, split by rows",
    parameters=("embedding", "group"),
    make_cases=_cases,
    oracle=each_rank(_plain),
    tolerance=TOLERANCE,
    optional=True,
    technique=Technique(
        demands=(
        only_all_reduce("One all-reduce of the result is all that is needed: neither the table nor the parts are gathered."),
        own_numbers(lambda look, r: look.right[r]["weight"].numel(), "The result is right, but a rank keeps more rows "
                                                                         "than its own V/n."),
        own_storage(lambda look, r: look.right[r]["weight"].nbytes, "The result is right, but weight is a view that "
                                                                       "keeps the whole table alive: clone the own rows."),
        all_reduces(BACKWARD, lambda look, r: 0, _result_bytes, "all-reduce backward", "nothing sent in backward",
                    "The result is right, but backward communicates: dy is whole on every rank already."),
        all_reduces(FORWARD, lambda look, r: 1, _result_bytes, "not one all-reduce forward", "one all-reduce, forward",
                    "The result is right, but forward does not take exactly one all-reduce of the result."),
        bytes_sent(_sent, "one all-reduce of (…, D)", "The result is right, but more is sent than one all-reduce of it."),
        results_waited(),
    ),
        symptoms=(
        raised("index", "An id lies outside the own rows: subtract the first own row, and look up row 0 for foreign ids.",
               "ids not shifted"),
        group_ignored("The ranks of other groups are touched: pass group to every call, and ask for the rank in the group."),
        unwaited(),
        Symptom("rows in turn", "A rank's rows must be neighbours, r·V/n to (r+1)·V/n.", _when("weight", in_turn=True)),
        Symptom("wrong rows", "weight is not this rank's part of the table: rows r·V/n to (r+1)·V/n.", _when("weight")),
        Symptom("ids not masked", "Every rank adds a row for every id, also for ids of other ranks: their results must be "
                                  "0 before the all-reduce.", _when("y", every_rank_looks_up=True)),
        Symptom("y not summed", "y has the own ids' rows only: sum over ranks (g).", _when("y", only=True)),
        Symptom("wrong y", "The rows are right, y is not: each id's row comes from the one rank that has it, the others "
                           "add 0.",
                _when("y")),
        Symptom("gradient n times", "y is right, the gradient is n times too large: after the all-reduce, backward passes "
                                    "dy on as it is (g).", _gradient_times_n),
        Symptom("foreign ids in gradient", "y is right, the gradient is not: ids of other ranks must add nothing to it, "
                                           "not even to row 0. Multiply by the mask where autograd sees it.",
                _when("dweight")),
        not_refused("A vocabulary that n does not divide must be refused: raise ValueError naming both (in practice it is "
                    "padded)."),
    ),
    ),
)
