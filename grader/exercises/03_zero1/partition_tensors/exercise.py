"""Whole tensors to ranks, balanced: the largest first, each to whoever has least so far."""

from collections.abc import Sequence

from grader.exercises.shared.cases import each_rank, ranks
from grader.exercises.shared.formula_cases import single
from grader.judging.exercise import VALUES, Case, Draw, Exercise


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    model = [draw.integer(1, 9) * 64 * (1 + 15 * (k % 2)) for k in range(draw.integer(7, 10))]
    lists = [(model, 2), (model, 3), (model, 4), ([5, 5, 5, 5, 5], 2), ([100, 1, 1, 1], 2), ([3, 8, 0], 4), ([7], 1),
             ([], 2), ([1 << 24, 1 << 24, 1, 1, 1, 1], 2)]
    return [single(f"{len(sizes)} tensor{'s' * (len(sizes) != 1)} on {ranks(n)}", sizes=sizes, n_ranks=n)
            for sizes, n in lists]


def _owners(sizes: Sequence[int], n_ranks: int) -> list[int]:
    """The largest first, of equals the first; each to who holds least, of equally loaded ranks the lowest."""
    held, owners = [0] * n_ranks, [0] * len(sizes)
    for index in sorted(range(len(sizes)), key=lambda index: -sizes[index]):
        owners[index] = held.index(min(held))
        held[owners[index]] += sizes[index]
    return owners


EXERCISE = Exercise(
    title="Whole tensors, balanced",
    parameters=("sizes", "n_ranks"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: _owners(**case.inputs[r])),
    forbidden=("torch.distributed.optim",),
    points={VALUES: 2},
)
