"""Whole tensors to ranks, balanced: the largest first, each to whoever has least so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grader.demands import only_calls
from grader.exercise import VALUES, Case, Draw, Exercise, Symptom
from grader.exercises.u01_collectives.inputs import each_rank, ranks
from grader.symptoms import wrong_ranks


def owners(sizes: Sequence[int], n_ranks: int, order: Callable[[list[int]], list[int]] | None = None,
           last_of_equals: bool = False) -> list[int]:
    """The owner of each tensor. Of equally large tensors the first comes first, of equally loaded ranks the lowest."""
    held, found = [0] * n_ranks, [0] * len(sizes)
    indices = sorted(range(len(sizes)), key=lambda index: -sizes[index]) if order is None else order(list(sizes))
    for index in indices:
        candidates = range(n_ranks)
        owner = min(reversed(candidates) if last_of_equals else candidates, key=lambda rank: held[rank])
        found[index] = owner
        held[owner] += sizes[index]
    return found


def _blocks(sizes: Sequence[int], n_ranks: int) -> list[int]:
    each = -(-len(sizes) // n_ranks)
    return [index // each for index in range(len(sizes))]


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    model = [draw.integer(1, 9) * 64 * (1 + 15 * (k % 2)) for k in range(draw.integer(7, 10))]
    lists = [(model, 2), (model, 3), (model, 4), ([5, 5, 5, 5, 5], 2), ([100, 1, 1, 1], 2), ([3, 8], 4), ([7], 1)]
    return [Case(f"{len(sizes)} tensor{'s' * (len(sizes) > 1)} on {ranks(n)}", ({"sizes": sizes, "n_ranks": n},))
            for sizes, n in lists]


def _as(other: Callable[[Sequence[int], int], list[int]]) -> Callable:
    """What is found is what another rule gives, and there it is not the right answer."""
    return wrong_ranks(lambda look, r, found, _: found == other(**look.case.inputs[r]))


def _heaviest(sizes: Sequence[int], n_ranks: int, found: list[int]) -> int:
    return max(sum(size for size, owner in zip(sizes, found, strict=True) if owner == rank) for rank in range(n_ranks))


EXERCISE = Exercise(
    id="partition_tensors",
    unit="03_zero1",
    title="Whole tensors, balanced",
    parameters=("sizes", "n_ranks"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: owners(**case.inputs[r])),
    adapter="call_plain",
    points={VALUES: 2},
    demands=(only_calls(id="communicates", hint="Every rank computes the same list: no message is needed."),),
    symptoms=(
        Symptom("in turn", "Dealt out in turn, as if all tensors were equally large: give each to the rank that has least.",
                _as(lambda sizes, n_ranks: [index % n_ranks for index in range(len(sizes))])),
        Symptom("in blocks", "Each rank gets as many tensors as the others, not as many numbers: a large one weighs more.",
                _as(_blocks)),
        Symptom("given order", "Right but for the order: a large tensor that comes last finds all ranks full. Begin with "
                               "the largest.", _as(lambda sizes, n_ranks: owners(
                                   sizes, n_ranks, lambda sizes: list(range(len(sizes)))))),
        Symptom("smallest first", "The smallest come first: begin with the largest, so that small ones fill the gaps.",
                _as(lambda sizes, n_ranks: owners(sizes, n_ranks, lambda sizes: sorted(
                    range(len(sizes)), key=sizes.__getitem__)))),
        Symptom("last of equals", "Of ranks that hold equally much the lowest gets the next one; all ranks must agree.",
                _as(lambda sizes, n_ranks: owners(sizes, n_ranks, last_of_equals=True))),
        Symptom("all to one", "One rank owns everything: nothing is divided.",
                wrong_ranks(lambda look, r, found, _: isinstance(found, list) and len(set(found)) == 1)),
    ),
)
