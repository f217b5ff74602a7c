"""Algorithm and bus bandwidth, against measurements that were published with both."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path

import utils
from grader.exercises.shared.formula_cases import single
from grader.judging.compare import same
from grader.judging.exercise import Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import wrong_ranks
from utils.costs.formulas import bus_factor

NAMES = ("op", "total_bytes", "n_ranks", "time_s")
TABLE = Path(utils.__file__).parent / "data" / "allreduce_a100_n2_n4.csv"  # all-reduce on A100s, NCCL: vTrain
PUBLISHED = 1e-3  # its bus bandwidths have two digits after the point


def _rows() -> list[dict[str, str]]:
    with TABLE.open(newline="") as file:
        return list(csv.DictReader(file))


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    published = [_published(row) for row in (draw.numbers.sample(_rows(), 6) if grading else _rows()[5::6])]
    others = [("reduce_scatter", 2**26, 4, 0.021), ("all_gather", 2**24, 3, 0.008), ("all_reduce", 10**9, 8, 0.0125)]
    return published + [single(f"{op}, {size:,} B, {n} ranks", **dict(zip(NAMES, (op, size, n, s), strict=True)))
                        for op, size, n, s in others]


def _published(row: dict[str, str]) -> Case:
    size, n = int(row["bytes"]), int(row["ranks"])
    return single(f"{n} A100s, {size >> 20} MiB", op="all_reduce", total_bytes=size, n_ranks=n,
                  time_s=int(row["time_ns_out_of_place"]) * 1e-9)


def _oracle(case: Case) -> list[tuple[float, float]]:
    """The published bus bandwidth where there is one, else nccl-tests' formula."""
    i = case.inputs[0]
    wanted = (str(i["n_ranks"]), str(i["total_bytes"]))
    published = [float(row["busbw_GBps"]) for row in _rows() if (row["ranks"], row["bytes"]) == wanted
                 and "A100" in case.name]
    algorithm_GBps = i["total_bytes"] / i["time_s"] / 1e9
    return [(algorithm_GBps, published[0] if published else algorithm_GBps * bus_factor(i["op"], i["n_ranks"]))]


def _pair(id: str, wrong: Callable[[dict, float, float], tuple[float, float]], hint: str) -> Symptom:
    """The result is wrong(inputs, right algorithm bandwidth, right bus bandwidth)."""

    def test(look: Look, rank: int, found: tuple, expected: tuple) -> bool:
        return same(found, wrong(look.case.inputs[rank], *expected), PUBLISHED)

    return Symptom(id, hint, wrong_ranks(test))


def _factor_of_another(look: Look, rank: int, found: tuple, expected: tuple) -> bool:
    n = look.case.inputs[rank]["n_ranks"]
    return any(same(found, (expected[0], expected[0] * phases * (n - 1) / n), PUBLISHED) for phases in (1, 2))


EXERCISE = Exercise(
    title="Algorithm bandwidth and bus bandwidth",
    parameters=NAMES,
    make_cases=_cases,
    oracle=_oracle,
    points={"values": 2},
    tolerance=PUBLISHED,
    technique=Technique(
        symptoms=(
        _pair("bits for bytes", lambda i, algorithm, bus: (8 * algorithm, 8 * bus),
              "Both are 8 times too large: GB/s counts bytes, Gb/s bits."),
        _pair("GiB for GB", lambda i, algorithm, bus: (algorithm * 1e9 / 2**30, bus * 1e9 / 2**30),
              "Both are about 7% too small: you divided by 2³⁰, but a GB is 10⁹ bytes (2³⁰ is a GiB)."),
        _pair("bus factor forgotten", lambda i, algorithm, bus: i["op"] == "all_reduce" and (algorithm, algorithm),
              "The bus bandwidth equals the algorithm bandwidth: multiply it by what each rank sends for every byte of "
              "the array, 2(n−1)/n in an all-reduce."),
        _pair("swapped", lambda i, algorithm, bus: (bus, algorithm),
              "The two have changed places: return (algorithm bandwidth, bus bandwidth)."),
        _pair("upside down", lambda i, algorithm, bus: (algorithm, algorithm**2 / bus),
              "You divided by the factor: the bus carries factor × M bytes in the same time, so multiply."),
        Symptom("factor of another collective", "The bus bandwidth has another collective's factor: 2(n−1)/n is for the "
                "all-reduce, (n−1)/n for reduce-scatter and for all-gather, which are half of it.",
                wrong_ranks(_factor_of_another)),
        _pair("n for n−1", lambda i, algorithm, bus: (algorithm, algorithm * (2 if i["op"] == "all_reduce" else 1)),
              "The bus bandwidth lacks (n−1)/n: a rank sends n−1 of the n chunks in each phase."),
        Symptom("bytes of one rank", "The algorithm bandwidth is n times off: total_bytes is the whole array already.",
                wrong_ranks(lambda look, r, found, expected: any(
                    same(found[0], expected[0] * f, PUBLISHED) for f in (look.case.inputs[r]["n_ranks"],
                                                                         1 / look.case.inputs[r]["n_ranks"])))),
    ),
    ),
)
