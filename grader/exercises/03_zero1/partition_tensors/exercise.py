"""Whole tensors to ranks, balanced: the largest first, each to whoever has least so far."""

from collections.abc import Callable, Sequence

from grader.exercises.shared.cases import each_rank, ranks
from grader.exercises.shared.formula_cases import single
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    model = [draw.integer(1, 9) * 64 * (1 + 15 * (k % 2)) for k in range(draw.integer(7, 10))]
    lists = [(model, 2), (model, 3), (model, 4), ([5, 5, 5, 5, 5], 2), ([100, 1, 1, 1], 2), ([3, 8, 0], 4), ([7], 1),
             ([], 2), ([1 << 24, 1 << 24, 1, 1, 1, 1], 2)]
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
    return _dealt(sizes, n_ranks, _by_size(sizes))


def _by_size(sizes: Sequence[int]) -> list[int]:
    """Indices from the largest to the smallest, equals in their order."""
    return sorted(range(len(sizes)), key=lambda index: -sizes[index])


def _fewest_tensors_first(sizes: Sequence[int], n_ranks: int) -> list[int]:
    """Of equally loaded ranks the one with the fewest tensors comes first."""
    held, owners = [(0, 0, rank) for rank in range(n_ranks)], [0] * len(sizes)
    for index in _by_size(sizes):
        numbers, tensors, rank = min(held)
        owners[index], held[rank] = rank, (numbers + sizes[index], tensors + 1, rank)
    return owners


def _in_order_of_size(sizes: Sequence[int], owner: Callable[[int], int]) -> list[int]:
    """owner(number) of each tensor, where 0 is the number of the largest one."""
    numbers = {index: number for number, index in enumerate(_by_size(sizes))}
    return [owner(numbers[index]) for index in range(len(sizes))]


def _there_and_back(number: int, n_ranks: int) -> int:
    lap, place = divmod(number, n_ranks)
    return n_ranks - 1 - place if lap % 2 else place


def _by_name(sizes: list[int], n_ranks: int) -> list[int]:
    """One owner for each size, the last one's."""
    in_order = sorted(sizes, reverse=True)
    owner = dict(zip(in_order, _owners(in_order, n_ranks), strict=True))
    return [owner[size] for size in sizes]


def _empty_ones_to_the_first(sizes: list[int], n_ranks: int) -> list[int]:
    return [owner if size else 0 for owner, size in zip(_owners(sizes, n_ranks), sizes, strict=True)]


def _by(id: str, rule: Callable[[list[int], int], list[int]], hint: str) -> Slip:
    """Another rule: rule(sizes, n_ranks) -> owners."""
    return Slip(id, hint, lambda case, r, right: rule(**case.inputs[r]))


IN_TURN = ("Each rank gets as many tensors as the others, dealt out in turn, as if all were equally large: give each to "
           "the rank that has the fewest elements so far.")

EXERCISE = Exercise(
    title="Whole tensors, balanced",
    parameters=("sizes", "n_ranks"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: _owners(**case.inputs[r])),
    forbidden=("torch.distributed.optim",),
    points={VALUES: 2},
    slips=(
        _by("in turn", lambda sizes, n_ranks: [index % n_ranks for index in range(len(sizes))],
            IN_TURN),
        _by("in turn", lambda sizes, n_ranks: _in_order_of_size(sizes, lambda number: number % n_ranks), IN_TURN),
        _by("in turn", lambda sizes, n_ranks: _in_order_of_size(sizes, lambda number: _there_and_back(number, n_ranks)),
            IN_TURN),
        _by("in blocks", lambda sizes, n_ranks: [index // -(-len(sizes) // n_ranks) for index in range(len(sizes))],
            "Each rank gets as many tensors as the others, not as many elements: a large one weighs more."),
        _by("given order", lambda sizes, n_ranks: _dealt(sizes, n_ranks, range(len(sizes))),
            "Right but for the order: a large tensor that comes last finds all ranks full. Begin with the largest."),
        _by("smallest first",
            lambda sizes, n_ranks: _dealt(sizes, n_ranks, sorted(range(len(sizes)), key=lambda index: sizes[index])),
            "The smallest come first: begin with the largest, so that small ones fill the gaps."),
        Slip("last of equals", "Of ranks that hold equally much the lowest gets the next one; all ranks must agree.",
             lambda case, r, right: [case.inputs[r]["n_ranks"] - 1 - owner for owner in right[r]]),
        _by("equals reversed",
            lambda sizes, n_ranks: _dealt(sizes, n_ranks, sorted(range(len(sizes)), key=lambda index: sizes[index])[::-1]),
            "Of equally large tensors the first comes first: a sorted list that is turned round has them the other way "
            "round."),
        _by("sizes as names", _by_name, "Tensors of one size share an owner: two tensors may be equally large, so go by "
                                        "their indices."),
        _by("empty ones to the first", _empty_ones_to_the_first,
            "A tensor of size 0 is dealt out by the same rule: to the rank with the smallest total so far."),
        _by("fewest tensors first", _fewest_tensors_first, "Of several ranks with the smallest total the lowest gets the "
                                                           "next tensor, however many tensors it has."),
        _by("all to one", lambda sizes, n_ranks: [0] * len(sizes), "One rank owns everything: nothing is divided."),
        _by("as dealt", lambda sizes, n_ranks: _owners(sorted(sizes, reverse=True), n_ranks),
            "These are the right owners in the order in which they were dealt out, by size: owners[i] is to be the owner of "
            "sizes[i]."),
    ),
)
