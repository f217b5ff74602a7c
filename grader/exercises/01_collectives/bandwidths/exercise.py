"""Algorithm and bus bandwidth, against measurements that were published with both."""

import math

from grader.exercises.shared.formula_cases import FORMULAS, pair, single
from grader.judging.exercise import Case, Draw, Exercise
from utils.costs.formulas import bus_factor
from utils.costs.tables import read_table

TABLE = "allreduce_a100_n2_n4"  # all-reduce on A100s, NCCL: vTrain
PUBLISHED = 1e-3  # its bus bandwidths have two digits after the point


def _cases(draw: Draw, grading: bool) -> list[Case]:
    rows = read_table(TABLE)
    published = [
        single(f"{row['ranks']} A100s, {row['bytes'] >> 20} MiB", op="all_reduce", total_bytes=row["bytes"],
               n_ranks=row["ranks"], time_s=row["time_ns_out_of_place"] * 1e-9)
        for row in (draw.numbers.sample(rows, 6) if grading else rows[5::6])]
    others = [("reduce_scatter", 2**26, 4, 0.021), ("all_gather", 100, 3, 2e-5), ("all_reduce", 10**9, 8, 0.0125)]
    return published + [single(f"{op}, {size:,} B, {n} ranks", op=op, total_bytes=size, n_ranks=n, time_s=time_s)
                        for op, size, n, time_s in others]


def _oracle(case: Case) -> list[tuple[float, float]]:
    """The published bus bandwidth where there is one, else nccl-tests' formula."""
    i = case.inputs[0]
    algorithm_GBps = i["total_bytes"] / i["time_s"] / 1e9
    if "A100" not in case.name:
        return [(algorithm_GBps, algorithm_GBps * bus_factor(i["op"], i["n_ranks"]))]
    row, = (row for row in read_table(TABLE) if (row["ranks"], row["bytes"]) == (i["n_ranks"], i["total_bytes"]))
    return [(algorithm_GBps, float(row["busbw_GBps"]))]


EXERCISE = Exercise(
    title="Algorithm bandwidth and bus bandwidth",
    forbidden=FORMULAS,
    parameters=("op", "total_bytes", "n_ranks", "time_s"),
    make_cases=_cases,
    oracle=_oracle,
    points={"values": 2},
    tolerance=PUBLISHED,
    slips=(
        pair("bits for bytes", lambda i, algorithm, bus: (8 * algorithm, 8 * bus),
             "Both are 8 times too large: GB/s counts bytes, Gb/s bits."),
        pair("GiB for GB", lambda i, algorithm, bus: (algorithm * 1e9 / 2**30, bus * 1e9 / 2**30),
             "Both are about 7% too small: you divided by 2³⁰, but a GB is 10⁹ bytes (2³⁰ is a GiB)."),
        pair("bus factor forgotten", lambda i, algorithm, bus: (algorithm, algorithm),
             "The bus bandwidth equals the algorithm bandwidth: multiply it by what each rank sends for every byte of "
             "the array, 2(n−1)/n in an all-reduce."),
        pair("swapped", lambda i, algorithm, bus: (bus, algorithm),
             "The two have changed places: return (algorithm bandwidth, bus bandwidth)."),
        pair("upside down", lambda i, algorithm, bus: (algorithm, algorithm**2 / bus),
             "You divided by the factor: the bus carries factor × M bytes in the same time, so multiply."),
        *(pair("factor of another collective",
               lambda i, algorithm, bus, op=op: (algorithm, bus * bus_factor(op, 2) / bus_factor(i["op"], 2)),
               "The bus bandwidth has another collective's factor: 2(n−1)/n is for the all-reduce, (n−1)/n for "
               "reduce-scatter and for all-gather, which are half of it.") for op in ("all_reduce", "all_gather")),
        pair("both ways counted", lambda i, algorithm, bus: (algorithm, 2 * bus),
             "Every bus bandwidth is twice too large: count the bytes that a rank sends; those that it receives come at the "
             "same time."),
        pair("a caller's shard", lambda i, algorithm, bus: (
            algorithm / (i["n_ranks"] if i["op"] == "reduce_scatter" else 1), bus),
             "The algorithm bandwidth of the reduce-scatter is n times too small: M is the whole array there too, not the "
             "shard that a rank gets."),
        pair("n for n−1", lambda i, algorithm, bus: (algorithm, algorithm * (2 if i["op"] == "all_reduce" else 1)),
             "The bus bandwidth lacks (n−1)/n: a rank sends n−1 of the n chunks in each phase."),
        *(pair("other units", lambda i, algorithm, bus, factor=factor: (factor * algorithm, factor * bus),
               "Both are off by a power of 1000: GB/s are asked, and a GB is 10⁹ bytes.")
          for factor in (1e9, 1e6, 1e3, 1e-3)),
        *(pair("factor on both", wrong, "The factor belongs to the bus bandwidth only: the algorithm bandwidth is M / time, "
               "whatever travels.")
          for wrong in (lambda i, algorithm, bus: (bus, bus),
                        lambda i, *right: tuple(part * (i["n_ranks"] - 1) / i["n_ranks"] for part in right))),
        pair("seconds a byte", lambda i, algorithm, bus: (1 / algorithm, bus / algorithm**2),
             "You divided the time by the bytes: a bandwidth is bytes divided by time."),
        pair("n over n−1", lambda i, algorithm, bus: (algorithm, bus * (i["n_ranks"] / (i["n_ranks"] - 1)) ** 2),
             "Your factor holds n/(n−1): a rank sends (n−1)/n of the array in each phase, less than all of it."),
        pair("bytes of all ranks", lambda i, algorithm, bus: (algorithm, bus * i["n_ranks"]),
             "The bus bandwidth is n times too large: count what one rank sends, (n−1)/n·M a phase, not what all send."),
        *(pair("whole bytes", lambda i, algorithm, bus, rounded=rounded: (
            algorithm, bus * rounded(i["total_bytes"] / i["n_ranks"]) * i["n_ranks"] / i["total_bytes"]),
               "The bus bandwidth counts chunks of whole bytes: each is M/n as it is, so divide with /.")
          for rounded in (math.floor, math.ceil)),
        *(pair("rounded", lambda i, *right, digits=digits: tuple(round(part, digits) for part in right),
               "Both are rounded: return the numbers as they are, and round only what you print.") for digits in (0, 1, 2)),
        *(pair("bytes of one rank",
               lambda i, algorithm, bus, power=power: (algorithm * i["n_ranks"]**power, bus * i["n_ranks"]**power),
               "The algorithm bandwidth is n times off: total_bytes is the whole array already.") for power in (1, -1)),
    ),
)
