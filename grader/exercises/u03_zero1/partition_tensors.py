"""Whole tensors to ranks, balanced: the largest first, each to whoever has least so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grader.demands import only_calls
from grader.exercise import VALUES, Case, Draw, Exercise, Look, Symptom
from grader.exercises.u01_collectives.inputs import each_rank, ranks
from grader.symptoms import wrong_ranks

Rule = Callable[[Sequence[int], int], list[int]]  # (sizes, n_ranks) -> owners


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
    lists = [(model, 2), (model, 3), (model, 4), ([5, 5, 5, 5, 5], 2), ([100, 1, 1, 1], 2), ([3, 8], 4), ([7], 1), ([], 2)]
    return [Case(f"{len(sizes)} tensor{'s' * (len(sizes) != 1)} on {ranks(n)}", ({"sizes": sizes, "n_ranks": n},))
            for sizes, n in lists]


RULES: dict[str, Rule] = {
    "in turn": lambda sizes, n_ranks: [index % n_ranks for index in range(len(sizes))],
    "in blocks": _blocks,
    "given order": lambda sizes, n_ranks: owners(sizes, n_ranks, lambda sizes: list(range(len(sizes)))),
    "smallest first": lambda sizes, n_ranks: owners(
        sizes, n_ranks, lambda sizes: sorted(range(len(sizes)), key=sizes.__getitem__)),
    "last of equals": lambda sizes, n_ranks: owners(sizes, n_ranks, last_of_equals=True),
    "all to one": lambda sizes, n_ranks: [0] * len(sizes),
    "as dealt": lambda sizes, n_ranks: owners(sorted(sizes, reverse=True), n_ranks),
}


def _by(name: str) -> Callable[[Look], bool]:
    """What is found is what this other rule gives, in a case where no third one gives the same."""

    def test(look: Look, rank: int, found: list, _) -> bool:
        return [rule for rule in RULES if RULES[rule](**look.case.inputs[rank]) == found] == [name]

    return wrong_ranks(test)


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
                _by("in turn")),
        Symptom("in blocks", "Each rank gets as many tensors as the others, not as many numbers: a large one weighs more.",
                _by("in blocks")),
        Symptom("given order", "Right but for the order: a large tensor that comes last finds all ranks full. Begin with "
                               "the largest.", _by("given order")),
        Symptom("smallest first", "The smallest come first: begin with the largest, so that small ones fill the gaps.",
                _by("smallest first")),
        Symptom("last of equals", "Of ranks that hold equally much the lowest gets the next one; all ranks must agree.",
                _by("last of equals")),
        Symptom("all to one", "One rank owns everything: nothing is divided.", _by("all to one")),
        Symptom("as dealt", "These are the right owners in the order in which they were dealt out, by size: owners[i] is to "
                            "be the owner of sizes[i].", _by("as dealt")),
    ),
)
