"""Whole tensors to ranks, balanced: the largest first, each to whoever has least so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grader.exercises.shared.cases import each_rank, ranks
from grader.judging.demands import only_calls
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import wrong_ranks


def owners(sizes: Sequence[int], n_ranks: int) -> list[int]:
    """The owner of each tensor. Of equally large tensors the first comes first, of equally loaded ranks the lowest."""
    held, found = [0] * n_ranks, [0] * len(sizes)
    for index in sorted(range(len(sizes)), key=lambda index: -sizes[index]):
        found[index] = min(range(n_ranks), key=lambda rank: held[rank])
        held[found[index]] += sizes[index]
    return found


def _blocks(sizes: Sequence[int], n_ranks: int) -> list[int]:
    each = -(-len(sizes) // n_ranks)
    return [index // each for index in range(len(sizes))]


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    model = [draw.integer(1, 9) * 64 * (1 + 15 * (k % 2)) for k in range(draw.integer(7, 10))]
    lists = [(model, 2), (model, 3), (model, 4), ([5, 5, 5, 5, 5], 2), ([100, 1, 1, 1], 2), ([3, 8], 4), ([7], 1), ([], 2)]
    return [Case(f"{len(sizes)} tensor{'s' * (len(sizes) != 1)} on {ranks(n)}", ({"sizes": sizes, "n_ranks": n},))
            for sizes, n in lists]


def _dealt(found: Sequence[int], sizes: Sequence[int], n_ranks: int, order: Sequence[int], lowest: bool = True) -> bool:
    """Whether `found` deals the tensors out in this order, each to the lowest (or highest) rank that has least."""
    held = [0] * n_ranks
    for index in order:
        least = [rank for rank in range(n_ranks) if held[rank] == min(held)]
        if found[index] != least[0 if lowest else -1]:
            return False
        held[found[index]] += sizes[index]
    return True


def _by_size(sizes: Sequence[int], sign: int) -> list[int]:
    return sorted(range(len(sizes)), key=lambda index: sign * sizes[index])


# Wrong rules: (found, sizes, n_ranks) -> does it follow this rule?
RULES: dict[str, Callable[[list[int], list[int], int], bool]] = {
    "in turn": lambda found, sizes, n_ranks: found == [index % n_ranks for index in range(len(sizes))],
    "in blocks": lambda found, sizes, n_ranks: found == _blocks(sizes, n_ranks),
    "given order": lambda found, sizes, n_ranks: _dealt(found, sizes, n_ranks, range(len(sizes))),
    "smallest first": lambda found, sizes, n_ranks: _dealt(found, sizes, n_ranks, _by_size(sizes, 1)),
    "last of equals": lambda found, sizes, n_ranks: _dealt(found, sizes, n_ranks, _by_size(sizes, -1), lowest=False),
    "all to one": lambda found, sizes, n_ranks: len(set(found)) == 1,
    "as dealt": lambda found, sizes, n_ranks: _dealt(found, sorted(sizes, reverse=True), n_ranks, range(len(sizes))),
}


def _by(name: str) -> Callable[[Look], bool]:
    """What is found follows this rule, in a case where it follows no other one."""

    def test(look: Look, rank: int, found: list, _) -> bool:
        return [rule for rule in RULES if RULES[rule](found, **look.case.inputs[rank])] == [name]

    return wrong_ranks(test)


EXERCISE = Exercise(
    title="Whole tensors, balanced",
    parameters=("sizes", "n_ranks"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: owners(**case.inputs[r])),
    points={VALUES: 2},
    technique=Technique(
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
    ),
)
