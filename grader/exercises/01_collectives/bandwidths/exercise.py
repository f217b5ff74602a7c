"""Algorithm and bus bandwidth, against measurements that were published with both."""

from grader.exercises.shared.formula_cases import FORMULAS, single
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
)
