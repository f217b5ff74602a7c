"""The mean over all ranks' numbers, where some ranks have none: fix a version that crashes on one rank."""

from collections.abc import Callable, Iterable
from itertools import chain

from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.judging.exercise import Case, Draw, Exercise, Slip

SMALL = 2.0**-16  # a power of two, so that sums are exact


def _cases(draw: Draw, grading: bool) -> list[Case]:
    def of_lengths(lengths: Iterable[int]) -> list[dict]:
        return [{"numbers": draw.tensor(length).tolist()} for length in lengths]

    wanted = [(4,), (2, 5), (3, 1, 4), (3, 2, 1, 0), (0, 4, 0, 2), *([(5, 0, 1, 2, 3), (0, 1)] if grading else [])]
    cases = [Case(f"{', '.join(map(str, lengths))} numbers on {ranks(len(lengths))}", tuple(of_lengths(lengths)))
             for lengths in wanted]
    small = tuple({"numbers": [*((draw.tensor(length) + 0.25) * SMALL).tolist(), 0.0]} for length in (2, 1, 4))
    large = tuple({"numbers": (draw.tensor(length) * 1024).tolist()} for length in (2, 1))
    cases.append(Case("2, 1 large numbers on 2 ranks", large))
    cases.append(Case("3, 2, 5 small numbers on 3 ranks, zeros among them", small))
    return [*cases, group_case(lambda n: of_lengths(range(1, n + 1)))]


def _mean(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers)


def _gives(id: str, hint: str, wrong: Callable[[list[list[float]], list[float]], float]) -> Slip:
    """Each rank returns wrong(the numbers of each rank of its group, its own)."""
    return Slip(id, hint, lambda case, r, right: float(wrong(case.peers_inputs(r, "numbers"), case.inputs[r]["numbers"])))


def _sum(shares: list[list[float]]) -> float:
    return sum(chain(*shares))


_MEAN_OF_MEANS = ("This is the mean of the ranks' means. It gives a rank with one number as much weight as a rank with "
                  "five: all-reduce sums and counts, then divide once.")

EXERCISE = Exercise(
    title="The mean over all ranks",
    parameters=("numbers", "group"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: _mean([*chain(*case.peers_inputs(r, "numbers"))])),
    tolerance=1e-5,  # float32 division
    slips=(
        _gives("mean of means", _MEAN_OF_MEANS, lambda shares, own: _mean([_mean(share) for share in shares if share])),
        _gives("mean of means", _MEAN_OF_MEANS, lambda shares, own: _mean([_mean(share or [0.0]) for share in shares])),
        _gives("own numbers only", "Each rank returns the mean of its own numbers: use what all_reduce brought.",
               lambda shares, own: _mean(own or [0.0])),
        _gives("divided by ranks", "The sum over all ranks is divided by the number of ranks; it must be divided by the "
                                   "number of numbers.", lambda shares, own: _sum(shares) / len(shares)),
        _gives("empty counted", "A rank without numbers has the count 0; here it counts as 1.",
               lambda shares, own: _sum(shares) / sum(len(share or [0.0]) for share in shares)),
        _gives("own count", "The sum is over all ranks, the count is this rank's own: both must be all-reduced.",
               lambda shares, own: _sum(shares) / len(own or [0.0])),
        _gives("not divided", "This is the sum: divide it by the count of all numbers.", lambda shares, own: _sum(shares)),
        _gives("fractions lost", "Fractions are cut off: sum and count travel as whole numbers. Give torch.tensor a dtype, "
                                 "float32 or float64.",
               lambda shares, own: sum(int(sum(share)) for share in shares) / sum(map(len, shares))),
        _gives("zeros left out", "A number that is 0 is a number, too: the count of a rank is len(numbers).",
               lambda shares, own: _sum(shares) / sum(map(bool, chain(*shares)))),
        *(_gives("rounded", "The mean is rounded, so a small one loses its digits or becomes 0: return it as it is, and "
                 "round only what you print.",
                 lambda shares, own, digits=digits: round(_sum(shares) / sum(map(len, shares)), digits))
          for digits in (2, 4, 6)),
        Slip("ignores the group", "Right for the whole world, wrong in a group: pass group=group to all_reduce.",
             lambda case, r, right: _mean([*chain(*(inputs["numbers"] for inputs in case.inputs))])),
    ),
)
