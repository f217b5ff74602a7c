"""What the cases of the bug hunt share: cases and oracle from what a group's ranks get.

A program returns one note a step on each rank (utils.models.hunted.note). The right ones come from one plain process.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from grader.exercises.shared.cases import each_rank, ranks
from grader.judging.exercise import Case, Draw, Exercise
from utils.models.hunted_plain import Notes, plain_replicas, shares

LR = 0.1
ROWS = 16  # of a rank's batch: to send it to the others takes more than any repaired program may send
PLAIN = "utils.models.hunted_plain"
TOLERANCE = 1e-9
GROUPS = ((1, 3), (0, 2))
Inputs = list[dict[str, Any]]  # of the ranks that work together
Trained = Callable[[Inputs], list[Notes]]


def shared_batches(n: int, draw: Draw) -> Inputs:
    """What n data parallel ranks get: each its share of every step's batch, drawn from a seed of its own."""
    return [{"batches": shares(1, rows=ROWS, seed=draw.seed())[0], "lr": LR} for _ in range(n)]


def hunted(title: str, parameters: tuple[str, ...], make_cases: Callable[[Draw, bool], Sequence[Case]],
           plain: Trained) -> Exercise:
    """An exercise whose oracle is plain(inputs of a group) → each rank's notes."""
    return Exercise(title, parameters, make_cases, each_rank(_of_rank(plain)), tolerance=TOLERANCE, forbidden=(PLAIN,))


def of_replicas(title: str) -> Exercise:
    """The same of plain data parallelism."""
    return hunted(title, ("batches", "lr", "group"), worlds(shared_batches, (3,), (1, 2)),
                  lambda inputs: plain_replicas(of(inputs, "batches"), LR))


def _of_rank(compute: Trained) -> Callable[[Case, int], Notes]:
    """Computed once a group."""

    @functools.lru_cache(maxsize=32)
    def of_group(case: Case, members: tuple[int, ...]) -> list[Notes]:
        return compute([case.inputs[member] for member in members])

    return lambda case, rank: of_group(case, case.members(rank))[case.group_rank(rank)]


def worlds(inputs: Callable[[int, Draw], Inputs], sizes: Sequence[int],
           for_grading: Sequence[int] = ()) -> Callable[[Draw, bool], list[Case]]:
    """Cases of so many ranks, then two groups of two. inputs(n, draw): what n ranks that work together get."""

    def make_cases(draw: Draw, grading: bool) -> list[Case]:
        cases = [Case(ranks(n), tuple(inputs(n, draw))) for n in (*sizes, *(for_grading if grading else ()))]
        of_rank = {rank: own for members in GROUPS for rank, own in zip(members, inputs(2, draw), strict=True)}
        return [*cases, Case("groups (1,3) and (0,2)", tuple(of_rank[rank] for rank in sorted(of_rank)), GROUPS)]

    return make_cases


def of(inputs: Inputs, name: str) -> list[Any]:
    """Each rank's value of one parameter."""
    return [own[name] for own in inputs]
