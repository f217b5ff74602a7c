"""How large an array must be for a ring to make good use of its links: the inverse of time and bus bandwidth."""

from grader.exercises.shared.cases import ranks
from grader.exercises.shared.formula_cases import FORMULAS, first_enough, single
from grader.judging.exercise import Case, Draw, Exercise
from utils.costs.formulas import bus_factor, ring_time_s


def _cases(draw: Draw, grading: bool) -> list[Case]:
    wanted = [(0.9, 2), (0.8, 3), (0.6, 8), (0.99, 64)]  # no 0.5: there share and 1 − share are the same
    if grading:
        wanted += [(draw.integer(51, 95) / 100, draw.integer(4, 500)) for _ in range(2)]
    cases = [single(f"{share:.0%} of the link, {ranks(n)}", share=share, n_ranks=n, alpha_s=draw.integer(5, 50) * 1e-6,
                    beta_s_per_byte=draw.integer(2, 40) * 1e-11)
             for share, n in wanted]
    # A chunk of a few dozen bytes and a part of one: to round it up to whole bytes is too much, to round M is not.
    slow = single("25% of a slow link, 1000 ranks", share=0.25, n_ranks=1000, alpha_s=(3 * draw.integer(40, 60) + 1) * 1e-6,
                  beta_s_per_byte=1e-6)
    fast = single("99% of a fast link, 2048 ranks", share=0.99, n_ranks=2048, alpha_s=draw.integer(20, 50) * 1e-6,
                  beta_s_per_byte=2e-11)  # hundreds of gigabytes
    return [*cases, slow, fast]


def _reached(i: dict, total_bytes: float) -> float:
    """The share of the link that the ring uses for this many bytes."""
    time_s = ring_time_s("all_reduce", total_bytes, i["n_ranks"], i["alpha_s"], i["beta_s_per_byte"])
    return bus_factor("all_reduce", i["n_ranks"]) * total_bytes / time_s * i["beta_s_per_byte"]


def _searched(i: dict) -> float:
    """The first whole number of bytes that reaches the share."""
    return float(first_enough(lambda total_bytes: _reached(i, total_bytes) >= i["share"]))


EXERCISE = Exercise(
    title="How large must the array be?",
    forbidden=FORMULAS,
    parameters=("share", "n_ranks", "alpha_s", "beta_s_per_byte"),
    make_cases=_cases,
    oracle=lambda case: [_searched(case.inputs[0])],
    points={"values": 2},
    tolerance=1e-4,  # rounded up to whole bytes or not
)
