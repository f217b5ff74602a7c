"""Shard the batch: this rank's rows of it, one piece, sizes that differ by one at most."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from grader.evidence.evidence import RAISED
from grader.exercises.shared.cases import TWO_GROUPS, each_rank, ranks
from grader.judging.compare import same
from grader.judging.demands import group_size, only_calls
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import wrong_ranks


def _shard(x_BD: torch.Tensor, n: int, r: int) -> torch.Tensor:
    return x_BD.tensor_split(n)[r]


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(1, 3), (2, 2 * draw.integer(1, 3)), (3, 3 * draw.integer(2, 4) + 1), (4, 4 * draw.integer(1, 3) + 3), (4, 2)]
    sizes += [(5, 5 * draw.integer(1, 2) + 4), (3, 1)] * grading
    cases = []
    for n, rows in sizes:
        x_BD = draw.tensor(rows, 2)
        cases.append(Case(f"{rows} row{'s' * (rows > 1)} on {ranks(n)}", ({"x_BD": x_BD},) * n))
    x_BD = draw.tensor(7, 2)
    return [*cases, Case("7 rows in groups (1,3,4) and (0,2)", ({"x_BD": x_BD},) * 5, TWO_GROUPS)]


def _cut_as(cut: Callable[[torch.Tensor, int, int], torch.Tensor]) -> Callable[[Look], bool]:
    return wrong_ranks(lambda look, r, found, _: isinstance(found, torch.Tensor) and same(
        found, cut(look.case.inputs[r]["x_BD"], group_size(look, r), look.case.group_rank(r))))


def _world(look: Look, rank: int, found: torch.Tensor, _) -> bool:
    """As many rows as a rank of the whole world would have."""
    share = len(look.case.inputs[rank]["x_BD"]) // look.case.world_size
    return look.case.groups is not None and len(found) in (share, share + 1)


def _rounded_up(look: Look) -> bool:
    chunks = _cut_as(lambda x, n, r: [*x.chunk(n), *[x[:0]] * n][r])
    return chunks(look) or (look.evidence.ending == RAISED and "out of range" in look.evidence.error)


EXERCISE = Exercise(
    title="Shard the batch",
    parameters=("x_BD", "group"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: _shard(case.inputs[r]["x_BD"], len(case.members(r)), case.group_rank(r))),
    points={VALUES: 2},
    technique=Technique(
        demands=(only_calls(id="communicates", hint="Every rank has the whole batch here and can cut its own part out: no "
                        "message is needed."),),
        symptoms=(
        Symptom("everything", "Every rank keeps the whole batch, so all do the same work: keep this rank's rows.",
                _cut_as(lambda x, n, r: x)),
        Symptom("rows dropped", "B // n drops the rows that do not divide: nobody trains on them. Give one row more to "
                "each of the first B mod n ranks.", _cut_as(lambda x, n, r: x[r * (len(x) // n):(r + 1) * (len(x) // n)])),
        Symptom("rest to the last", "The last rank takes all rows that are left over; the others would wait for it. Give "
                "one row more to each of the first B mod n ranks.", _cut_as(lambda x, n, r: torch.cat(
                    [x[r * (len(x) // n):(r + 1) * (len(x) // n)], x[n * (len(x) // n):] if r == n - 1 else x[:0]]))),
        Symptom("rounded up", "torch.chunk rounds the size up: 7 rows on 4 ranks become 2, 2, 2, 1, but 2 rows on 4 "
                "ranks two chunks only. Sizes may differ by one, and there must be n parts (tensor_split makes them).",
                _rounded_up),
        Symptom("dealt like cards", "The sizes are right, but the rows are dealt out like cards (every n-th one): a shard "
                "is one piece.", _cut_as(lambda x, n, r: x[r::n])),
        Symptom("columns", "The batch is cut along D, its columns: data parallelism cuts along B, the rows.",
                _cut_as(lambda x, n, r: x.tensor_split(n, dim=1)[r])),
        Symptom("group ignored", "Right for the whole world, wrong in a group: ask dist.get_rank(group) and "
                "dist.get_world_size(group).", wrong_ranks(_world)),
    ),
    ),
)
