"""The fastest layout that fits: every legal (dp, tp, pp, micro_batch) is tried."""

from collections.abc import Iterator, Sequence
from typing import Any

from grader.calling.layouts import memory_by, seconds_by
from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.formula_cases import FORMULAS, single
from grader.judging.exercise import VALUES, Case, Draw, Exercise

Given, Layout = dict[str, Any], dict[str, int]
TIES = ("tp", "pp", "micro_batch")


def layouts(given: Given) -> Iterator[Layout]:
    """All legal ones. Divisors are found by trying."""
    n, batch = given["n_devices"], given["batch"]
    sizes = ((n // (tp * pp), tp, pp) for tp in range(1, n + 1) for pp in range(1, n // tp + 1) if n % (tp * pp) == 0)
    for dp, tp, pp in sizes:
        for micro_batch in range(1, batch // dp + 1):
            how = {"dp": dp, "tp": tp, "pp": pp, "micro_batch": micro_batch, "n_micro": batch // (dp * micro_batch)}
            if is_legal(given, how):
                yield how


def is_legal(given: Given, how: Layout) -> bool:
    shape, batch = given["shape"], given["batch"]
    return (shape["heads"] % how["tp"] == 0 and shape["layers"] % how["pp"] == 0
            and given["machine"]["devices_per_node"] % how["tp"] == 0 and batch % (how["dp"] * how["micro_batch"]) == 0)


def memory(given: Given, how: Layout) -> float:
    return memory_by(given["prices"])(given["shape"], how)


def chosen(given: Given) -> Layout | None:
    seconds_of = seconds_by(given["prices"])
    fitting = [how for how in layouts(given) if memory(given, how) <= given["machine"]["memory_bytes"]]
    return min(fitting, key=lambda how: (seconds_of(given["shape"], how), *(how[axis] for axis in TIES)), default=None)


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def case(name: str, n_devices: int, per_node: int, layers: int, heads: int, batch: int, room: float,
             **prices: float) -> Case:
        """room: the budget, as so many times what the smallest layout takes."""
        prices = {"layer_bytes": 64.0, "kept_bytes": 1.0, "start": 0.5, "tp": 0.125, "dp": 0.0, "grain": 0.0078125,
                  "micro_bytes": 0.0} | prices
        given = {"shape": {"layers": layers, "heads": heads, "hidden": 8 * heads}, "n_devices": n_devices, "batch": batch,
                 "machine": {"devices_per_node": per_node, "memory_bytes": 1e18}, "prices": prices}
        least = min(memory(given, how) for how in layouts(given))
        given["machine"]["memory_bytes"] = room * least
        return single(name, **given)

    more = draw.integer(5, 9) / 64
    cases = [
        case("plenty of memory", 16, 8, 24, 12, 48, 100.0, tp=more, dp=2.0),
        case("little memory", 16, 8, 24, 12, 48, 1.5, tp=more),
        case("the smallest, to the byte", 16, 8, 24, 12, 48, 1.0, tp=more),
        case("none fits", 16, 8, 24, 12, 48, 0.99),
        case("one device", 1, 8, 3, 4, 12, 3.0, start=8.0, kept_bytes=4.0),
        case("nodes of 6", 24, 6, 12, 24, 72, 4.0, tp=0.0625, dp=2.0),
        case("fast tensor parallelism", 32, 4, 8, 16, 64, 2.0, tp=-0.0078125, dp=0.25),
        case("few heads, few layers", 36, 12, 9, 6, 72, 4.0, tp=0.015625, dp=4.0, start=2.0),
        case("all equally fast", 32, 8, 48, 8, 64, 8.0, grain=65536.0),
        case("many equally fast", 12, 4, 6, 4, 24, 4.0, grain=64.0, dp=16.0),
        case("12 devices in nodes of 8", 12, 8, 8, 8, 24, 4.0, dp=64.0),
        case("none fits on all 12", 12, 8, 8, 8, 24, 0.6),
        case("fewer micro-batches than stages", 8, 8, 8, 1, 4, 100.0),
        case("many micro-batches take more", 8, 8, 8, 8, 32, 3.1, micro_bytes=8.0, start=2.0, tp=0.5),
        case("batch hardly divisible", 8, 4, 8, 8, 21, 30.0, start=2.0, dp=1.0),
    ]
    if grading:
        cases += [case(f"drawn {i}", 48, 8, 24, 24, 96, draw.integer(9, 40) / 8, tp=draw.integer(0, 9) / 64,
                       dp=draw.integer(0, 8) / 4, start=draw.integer(1, 8) / 2) for i in range(3)]
    return cases


EXERCISE = Exercise(
    title="Choose the layout",
    forbidden=FORMULAS,
    parameters=("shape", "n_devices", "batch", "machine", "memory_of", "seconds_of"),
    make_cases=_cases,
    oracle=each_rank(lambda case, rank: chosen(case.inputs[rank])),
    points={VALUES: 3},
)
