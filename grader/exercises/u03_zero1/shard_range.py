"""Flat ranges: which part of a flat array of parameters is whose, when all parts but the last ones are equally long."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grader.demands import only_calls
from grader.exercise import VALUES, Case, Draw, Exercise, Symptom
from grader.exercises.u01_collectives.inputs import each_rank
from grader.symptoms import wrong_ranks


def shard(n_elements: int, n_ranks: int, rank: int) -> tuple[int, int]:
    length = -(-n_elements // n_ranks)
    return min(rank * length, n_elements), min((rank + 1) * length, n_elements)


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    found = []
    for n_elements, n in ((12, 4), (10, 4), (3, 4), (7, 1), (draw.integer(20, 40) * 3 + 1, 3)):
        ranks = range(n) if n_elements < 40 else (0, n - 1)
        found += [Case(f"{n_elements} elements, rank {r} of {n}", (
            {"n_elements": n_elements, "n_ranks": n, "rank": r},)) for r in ranks]
    return found


def _as(other: Callable[[int, int, int], tuple]) -> Callable:
    return wrong_ranks(lambda look, r, found, _: tuple(found) == other(**look.case.inputs[r])
                       if isinstance(found, (tuple, list)) else False)


def _split(n_elements: int, n_ranks: int, rank: int) -> tuple[int, int]:
    length, more = divmod(n_elements, n_ranks)
    start = rank * length + min(rank, more)
    return start, start + length + (rank < more)


EXERCISE = Exercise(
    id="shard_range",
    unit="03_zero1",
    title="Whose part of the flat array",
    parameters=("n_elements", "n_ranks", "rank"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: shard(**case.inputs[r])),
    adapter="call_plain",
    points={VALUES: 2},
    demands=(only_calls(id="communicates", hint="This is arithmetic: no message is needed."),),
    symptoms=(
        Symptom("tail lost", "Rounding down, n_elements // n_ranks, leaves the last elements to nobody: round up.",
                _as(lambda n_elements, n_ranks, rank: (
                    rank * (n_elements // n_ranks), (rank + 1) * (n_elements // n_ranks)))),
        Symptom("lengths differ by one", "Balanced, but a reduce-scatter needs parts of one length: all have ⌈Ψ/n⌉ "
                                         "elements, only the last ones are cut short.", _as(_split)),
        Symptom("beyond the end", "A range ends beyond the array: cut it at n_elements.",
                _as(lambda n_elements, n_ranks, rank: (
                    rank * -(-n_elements // n_ranks), (rank + 1) * -(-n_elements // n_ranks)))),
        Symptom("start beyond the end", "Where there are more ranks than parts, a rank's range is empty: start and stop "
                                        "are both n_elements.", _as(lambda n_elements, n_ranks, rank: (
                                            rank * -(-n_elements // n_ranks),
                                            min((rank + 1) * -(-n_elements // n_ranks), n_elements)))),
        Symptom("length for stop", "The second number is where the range ends, not its length.",
                _as(lambda n_elements, n_ranks, rank: (shard(n_elements, n_ranks, rank)[0], shard(
                    n_elements, n_ranks, rank)[1] - shard(n_elements, n_ranks, rank)[0]))),
        Symptom("last included", "stop is the first element that is no longer part of the range.",
                _as(lambda n_elements, n_ranks, rank: (
                    shard(n_elements, n_ranks, rank)[0], shard(n_elements, n_ranks, rank)[1] - 1))),
    ),
)
