"""How large an array must be for a ring to make good use of its links: the inverse of time and bus bandwidth."""

import math

from grader.exercises.shared.cases import ranks
from grader.exercises.shared.formula_cases import FORMULAS, first_enough, formula, single
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


def _solved(i: dict, odds: float, chunks: float | None = None) -> float:
    """`chunks` chunks (one a rank), each of `odds` times the bytes that a link carries in α."""
    return (i["n_ranks"] if chunks is None else chunks) * odds * i["alpha_s"] / i["beta_s_per_byte"]


def _odds(share: float) -> float:
    """How much longer than its latency a message must travel, so that travelling is this share of the whole."""
    return share / (1 - share) if share != 1 else math.inf


def _of_algorithm_bandwidth(i: dict) -> float:
    """What comes out if M / time is to reach the share, which it never does where the factor is too large."""
    return _solved(i, _odds(bus_factor("all_reduce", i["n_ranks"]) * i["share"]), i["n_ranks"])


EXERCISE = Exercise(
    title="How large must the array be?",
    forbidden=FORMULAS,
    parameters=("share", "n_ranks", "alpha_s", "beta_s_per_byte"),
    make_cases=_cases,
    oracle=lambda case: [_searched(case.inputs[0])],
    points={"values": 2},
    tolerance=1e-4,  # rounded up to whole bytes or not
    slips=(
        formula("one chunk", lambda i: _solved(i, _odds(i["share"]), 1),
                "This is one chunk, what a single message must carry: the array is cut into n of them."),
        formula("n−1 chunks", lambda i: _solved(i, _odds(i["share"]), i["n_ranks"] - 1),
                "You count n−1 chunks: a rank sends n−1 of them in each half, but the array is cut into n."),
        formula("upside down", lambda i: _solved(i, 1 / _odds(i["share"])),
                "share and 1 − share have changed places: the higher the share, the more bytes it takes."),
        formula("share of the latency", lambda i: _solved(i, i["share"]),
                "You ask for a transfer of share × α: the transfer must be that share of the whole step, which is α and the "
                "transfer together."),
        formula("share of the transfer", lambda i: _solved(i, 1 / (1 - i["share"])),
                "You allow a latency of 1 − share of the transfer alone: it may be that part of the whole step, which is α "
                "and the transfer together."),
        formula("algorithm bandwidth", _of_algorithm_bandwidth,
                "This is the size for which M / time reaches the share (if it ever does): the bus bandwidth counts what "
                "each rank sends, 2(n−1)/n·M."),
        formula("latency once", lambda i: _solved(i, _odds(i["share"]), i["n_ranks"] / (2 * (i["n_ranks"] - 1))),
                "You count α once: every one of the 2(n−1) steps is a message and costs its own α."),
        formula("latency once a phase", lambda i: _solved(i, _odds(i["share"]), i["n_ranks"] / (i["n_ranks"] - 1)),
                "You count α once a half: every step is a message of its own and costs its own α."),
        formula("phases on one side", lambda i: _solved(i, _odds(i["share"] / 2)),
                "You count both halves in the bytes but one in the time: an all-reduce has 2(n−1) steps, and each rank "
                "sends 2(n−1)/n·M."),
        formula("phases on one side", lambda i: _solved(i, _odds(2 * i["share"])),
                "You count both halves in the time but one in the bytes: an all-reduce has 2(n−1) steps, and each rank "
                "sends 2(n−1)/n·M."),
        formula("beta for bandwidth", lambda i: _solved(i, _odds(i["share"])) * i["beta_s_per_byte"] ** 2,
                "You multiply by β, as if it were a bandwidth: it is seconds a byte, so what a link carries in α is α/β "
                "bytes."),
        formula("bytes sent", lambda i: _solved(i, _odds(i["share"]), 2 * (i["n_ranks"] - 1)),
                "This is what each rank sends, 2(n−1)/n·M: asked is M, the whole array."),
        formula("whole chunks", lambda i: float(i["n_ranks"] * math.ceil(_solved(i, _odds(i["share"]), 1))),
                "You round a chunk up to whole bytes, and there are n of them: up to n − 1 bytes too many. "
                "Round M, or nothing."),
        *(formula("power of two", lambda i, start=start: start(i) * 2.0 ** math.ceil(
                      math.log2(_solved(i, _odds(i["share"])) / start(i))),
                  "You double until it is enough, and stop there: search on between this number and the half of it, which "
                  "was too few.")
          for start in (lambda i: 1, lambda i: i["n_ranks"])),
        *(formula("other units", lambda i, factor=factor: _solved(i, _odds(i["share"])) / factor,
                  "These are not bytes: return M as it is, and turn it into MB or MiB only where you print it.")
          for factor in (1e3, 1e6, 1e9, 2**10, 2**20, 2**30)),
    ),
)
