"""The mean over all ranks' numbers, where some ranks have none: fix a version that crashes on one rank."""

from collections.abc import Iterable
from itertools import chain

from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.judging.exercise import Case, Draw, Exercise

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


EXERCISE = Exercise(
    title="The mean over all ranks",
    parameters=("numbers", "group"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: _mean([*chain(*case.peers_inputs(r, "numbers"))])),
    tolerance=1e-5,  # float32 division
)
