"""The idle share of a pipeline, by both conventions: of the ideal time, and of all the time."""

from collections.abc import Callable, Sequence

from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.formula_cases import FORMULAS
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip


def fractions(p: int, m: int, v: int) -> tuple[float, float]:
    return (p - 1) / (v * m), (p - 1) / (v * m + p - 1)


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    p = draw.integer(5, 9)
    sizes = [(4, 8, 1), (8, 8, 2), (1, 5, 1), (3, 1, 1), (p, p * draw.integer(2, 4), 3)]  # with chunks, p divides m
    if grading:
        sizes += [(p := draw.integer(2, 16), p * draw.integer(1, 4), draw.integer(1, 4)) for _ in range(3)]
        sizes += [(draw.integer(2, 16), draw.integer(2, 64), 1)]
    return [Case(f"{p} rank{'s' * (p > 1)}, {m} micro-batch{'es' * (m > 1)}, {v} chunk{'s' * (v > 1)} per rank",
                 ({"n_ranks": p, "n_micro": m, "n_chunks": v},)) for p, m, v in sizes]


def _both(id: str, hint: str, wrong: Callable[[int, int, int], tuple[float, float]]) -> Slip:
    return Slip(id, hint, lambda case, rank, right: wrong(*case.inputs[rank].values()))


def _of_all(id: str, hint: str, wrong: Callable[[int, int, int], float]) -> Slip:
    """Only the second share is wrong."""
    return Slip(id, hint, lambda case, rank, right: (right[rank][0], wrong(*case.inputs[rank].values())))


EXERCISE = Exercise(
    title="The bubble, by both conventions",
    forbidden=FORMULAS,
    parameters=("n_ranks", "n_micro", "n_chunks"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: fractions(*case.inputs[r].values())),
    tolerance=1e-6,
    points={VALUES: 2},
    slips=(
        _both("swapped", "The two are swapped: first the share of the ideal time, then the smaller one, of the total time.",
              lambda p, m, v: fractions(p, m, v)[::-1]),
        _both("one too many", "A rank waits for the p − 1 others, not for p.", lambda p, m, v: fractions(p + 1, m, v)),
        _both("bubble grows with chunks", "More chunks make the bubble shorter, not longer: v multiplies the m "
                                          "micro-batches, not the p − 1 "
                                          "stages.", lambda p, m, v: fractions(1 + (p - 1) * v, m, 1)),
        _both("chunks counted as stages", "Chunks are no further ranks to wait for: a rank waits for p − 1 others, and v "
                                          "multiplies m.", lambda p, m, v: fractions(p * v, m, v)),
        _both("whole numbers", "The shares are fractions: divide with /, // throws away what is behind the point.",
              lambda p, m, v: ((p - 1) // (v * m), (p - 1) / (v * m + p - 1))),
        _both("chunks forgotten", "With v chunks per rank, a pass through one chunk takes a v-th of the time, and each "
                                  "wait is a v-th as long: v multiplies m.", lambda p, m, v: fractions(p, m, 1)),
        _of_all("chunks divide once", "The chunks stand in the first share only: in the second one too v multiplies m.",
                lambda p, m, v: fractions(p, m, 1)[1]),
        _of_all("bubble divided last", "The total time is the ideal time plus the bubble, and v shrinks only the bubble: "
                                       "(p − 1)/(v·m + p − 1).", lambda p, m, v: fractions(p, m, 1)[1] / v),
        _of_all("total without the bubble", "The total time includes the bubble: v·m + p − 1 below the line.",
                lambda p, m, v: fractions(p, m, v)[0]),
        _of_all("stages added", "The total time is v·m + (p − 1) passes, not v·m + p.",
                lambda p, m, v: (p - 1) / (v * m + p)),
    ),
)
