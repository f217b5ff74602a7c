"""Whole tensors to ranks, balanced: the largest first, each to whoever has least so far."""

from collections.abc import Callable, Sequence

from grader.exercises.shared.cases import each_rank, ranks
from grader.exercises.shared.formula_cases import single
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    model = [draw.integer(1, 9) * 64 * (1 + 15 * (k % 2)) for k in range(draw.integer(7, 10))]
    lists = [(model, 2), (model, 3), (model, 4), ([5, 5, 5, 5, 5], 2), ([100, 1, 1, 1], 2), ([3, 8], 4), ([7], 1), ([], 2)]
    return [single(f"{len(sizes)} tensor{'s' * (len(sizes) != 1)} on {ranks(n)}", sizes=sizes, n_ranks=n)
            for sizes, n in lists]


def _dealt(sizes: Sequence[int], n_ranks: int, order: Sequence[int]) -> list[int]:
    """The owner of each tensor when they are dealt out in this order. Of equally loaded ranks the lowest comes first."""
    held, owners = [0] * n_ranks, [0] * len(sizes)
    for index in order:
        owners[index] = held.index(min(held))
        held[owners[index]] += sizes[index]
    return owners


def _owners(sizes: Sequence[int], n_ranks: int) -> list[int]:
    """The largest first; of equally large tensors the first comes first."""
    return _dealt(sizes, n_ranks, sorted(range(len(sizes)), key=lambda index: -sizes[index]))


def _by(id: str, rule: Callable[[list[int], int], list[int]], hint: str) -> Slip:
    """Another rule: rule(sizes, n_ranks) -> owners."""
    return Slip(id, hint, lambda case, r, right: rule(**case.inputs[r]))


EXERCISE = Exercise(
    title="Whole tensors, balanced",
    parameters=("sizes", "n_ranks"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: _owners(**case.inputs[r])),
    points={VALUES: 2},
    slips=(
        _by("in turn", lambda sizes, n_ranks: [index % n_ranks for index in range(len(sizes))],
            "Dealt out in turn, as if all tensors were equally large: give each to the rank that has least."),
        _by("in blocks", lambda sizes, n_ranks: [index // -(-len(sizes) // n_ranks) for index in range(len(sizes))],
            "Each rank gets as many tensors as the others, not as many numbers: a large one weighs more."),
        _by("given order", lambda sizes, n_ranks: _dealt(sizes, n_ranks, range(len(sizes))),
            "Right but for the order: a large tensor that comes last finds all ranks full. Begin with the largest."),
        _by("smallest first",
            lambda sizes, n_ranks: _dealt(sizes, n_ranks, sorted(range(len(sizes)), key=lambda index: sizes[index])),
            "The smallest come first: begin with the largest, so that small ones fill the gaps."),
        Slip("last of equals", "Of ranks that hold equally much the lowest gets the next one; all ranks must agree.",
             lambda case, r, right: [case.inputs[r]["n_ranks"] - 1 - owner for owner in right[r]]),
        _by("all to one", lambda sizes, n_ranks: [0] * len(sizes), "One rank owns everything: nothing is divided."),
        _by("as dealt", lambda sizes, n_ranks: _owners(sorted(sizes, reverse=True), n_ranks),
            "These are the right owners in the order in which they were dealt out, by size: owners[i] is to be the owner of "
            "sizes[i]."),
    ),
)
