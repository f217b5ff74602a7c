"""The fastest layout that fits: every legal (dp, tp, pp, micro_batch) is tried."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from grader.calling.layouts import memory_by, seconds_by
from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.formula_cases import FORMULAS, formula, single
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip

Given, Layout = dict[str, Any], dict[str, int]
RULES: dict[str, Callable[[Given, Layout], bool]] = {
    "heads": lambda given, how: given["shape"]["heads"] % how["tp"] == 0,
    "layers": lambda given, how: given["shape"]["layers"] % how["pp"] == 0,
    "node": lambda given, how: given["machine"]["devices_per_node"] % how["tp"] == 0,
    "batch": lambda given, how: given["batch"] % (how["dp"] * how["micro_batch"]) == 0,
}
TIES = ("tp", "pp", "micro_batch")


def layouts(given: Given, **rules: Callable[[Given, Layout], bool]) -> Iterator[Layout]:
    """All that the rules allow; rules: others in their place. Divisors are found by trying."""
    n, batch = given["n_devices"], given["batch"]
    sizes = ((n // (tp * pp), tp, pp) for tp in range(1, n + 1) for pp in range(1, n // tp + 1) if n % (tp * pp) == 0)
    for dp, tp, pp in sizes:
        for micro_batch in range(1, batch // dp + 1):
            how = {"dp": dp, "tp": tp, "pp": pp, "micro_batch": micro_batch, "n_micro": batch // (dp * micro_batch)}
            if all(allows(given, how) for allows in (RULES | rules).values()):
                yield how


def seconds(given: Given, how: Layout) -> float:
    return seconds_by(given["prices"])(given["shape"], how)


def memory(given: Given, how: Layout) -> float:
    return memory_by(given["prices"])(given["shape"], how)


def fits(given: Given, how: Layout) -> bool:
    return memory(given, how) <= given["machine"]["memory_bytes"]


def fastest_first(given: Given, how: Layout) -> tuple[float, ...]:
    return (seconds(given, how), *(how[axis] for axis in TIES))


def chosen(given: Given, order: Callable[[Given, Layout], Any] = fastest_first,
           enough: Callable[[Given, Layout], bool] = fits, **rules: Callable[[Given, Layout], bool]) -> Layout | None:
    fitting = [how for how in layouts(given, **rules) if enough(given, how)]
    return min(fitting, key=lambda how: order(given, how), default=None)


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


# ── other searches ──


def _first_found(given: Given, how: Layout) -> tuple[int, ...]:
    return tuple(how[axis] for axis in TIES)


def _tied(*signs: int) -> Callable[[Given, Layout], tuple[float, ...]]:
    """Ties by other signs of tp, pp, micro_batch."""
    return lambda given, how: (seconds(given, how), *(sign * how[axis] for sign, axis in zip(signs, TIES, strict=True)))


def _pp_first(given: Given, how: Layout) -> tuple[float, ...]:
    return seconds(given, how), how["pp"], how["tp"], how["micro_batch"]


def _nothing(given: Given, how: Layout) -> bool:
    return True


def _all_smaller_fit(given: Given, how: Layout) -> bool:
    """Whether it fits, and all smaller micro-batches do that the batch allows."""
    share = given["batch"] // how["dp"]
    sizes = (size for size in range(1, how["micro_batch"] + 1) if share % size == 0)
    return all(fits(given, how | {"micro_batch": size, "n_micro": share // size}) for size in sizes)


def _is_power(n: int) -> bool:
    return n & (n - 1) == 0


def _slip(id: str, hint: str, order: Callable = fastest_first, **ways: Callable) -> Slip:
    return formula(id, lambda given: chosen(given, order, **ways), hint)


def _other_count(id: str, hint: str, n_micro: Callable[[Given, Layout], int]) -> Slip:
    """With another number of micro-batches, from the search to the result."""

    def counted(given: Given, how: Layout) -> Layout:
        return how | {"n_micro": n_micro(given, how)}

    def wrong(given: Given) -> Layout | None:
        how = chosen(given, lambda given, how: fastest_first(given, counted(given, how)),
                     lambda given, how: fits(given, counted(given, how)))
        return how and counted(given, how)

    return formula(id, wrong, hint)


EXERCISE = Exercise(
    title="Choose the layout",
    forbidden=FORMULAS,
    parameters=("shape", "n_devices", "batch", "machine", "memory_of", "seconds_of"),
    make_cases=_cases,
    oracle=each_rank(lambda case, rank: chosen(case.inputs[rank])),
    points={VALUES: 3},
    slips=(
        _slip("must stay below", "Exactly memory_bytes still fits: <=, not <.",
              enough=lambda given, how: memory(given, how) < given["machine"]["memory_bytes"]),
        _slip("fastest, fitting or not", "Where none fits, the answer is None: the fastest of those that do not fit cannot "
              "be run.", enough=lambda given, how: fits(given, how) or not any(fits(given, one) for one in layouts(given))),
        _slip("memory ignored", "The fastest of all is no use if it does not fit: memory_of(shape, layout) must stay within "
              "memory_bytes.", enough=_nothing),
        _slip("first that fits", "Many layouts fit. The one that takes least time is asked, so try them all.", _first_found),
        _slip("least memory", "Memory only has to suffice; what is asked for is the least time.",
              lambda given, how: (memory(given, how), *fastest_first(given, how))),
        _slip("slowest", "That is the layout that takes longest.", lambda given, how: (
            -seconds(given, how), *_first_found(given, how))),
        _slip("tensor group across nodes", "A tensor group must lie inside a node: tp must divide devices_per_node.",
              node=_nothing),
        _slip("tensor group over a node's edge", "A tp that does not divide devices_per_node makes groups that lie on two "
              "nodes: with nodes of 6 the second group of 4 does.",
              node=lambda given, how: how["tp"] <= given["machine"]["devices_per_node"]),
        _slip("heads cut", "A tensor-parallel rank takes whole heads: tp must divide them.", heads=_nothing),
        _slip("layers cut", "A stage has whole layers, all stages as many: pp must divide them.", layers=_nothing),
        _slip("samples left over", "dp · micro_batch must divide the batch: else sequences are left over.", batch=_nothing),
        _slip("micro-batch of one", "Micro-batches may be larger than 1: each size that divides a replica's share of the "
              "batch is to be tried, and the larger it is, the fewer they are.",
              batch=lambda given, how: RULES["batch"](given, how) and how["micro_batch"] == 1),
        _slip("given up at the first that does not fit", "A larger micro-batch may fit where a smaller one does not: what "
              "memory_of says is given, so ask it for every size.", enough=_all_smaller_fit),
        _slip("one micro-batch", "A replica's share of the batch can be cut into micro-batches of every size that divides "
              "it, not only be taken whole.", batch=lambda given, how: given["batch"] == how["dp"] * how["micro_batch"]),
        _slip("powers of two only", "Not only powers of two are legal: every divisor of heads, layers and batch counts.",
              batch=lambda given, how: RULES["batch"](given, how) and all(
                  _is_power(how[axis]) for axis in ("tp", "pp", "micro_batch"))),
        _slip("no data parallelism", "Devices that tp and pp leave free are further replicas: dp = n_devices / (tp·pp).",
              batch=lambda given, how: RULES["batch"](given, how) and how["dp"] == 1),
        _slip("ties by larger tp", "Of equally fast layouts the one with the smaller tp is asked.", _tied(-1, 1, 1)),
        _slip("ties by larger pp", "Of equally fast layouts of one tp the one with the smaller pp is asked.",
              _tied(1, -1, 1)),
        _slip("ties by larger micro-batch", "Of equally fast layouts of one tp and pp the one with the smaller micro_batch "
              "is asked.", _tied(1, 1, -1)),
        _slip("ties by pp first", "Ties go to the smaller tp first, and only then to the smaller pp.", _pp_first),
        _slip("last of the ties", "Of equally fast layouts the last one was taken: replace the best only by one that is "
              "faster, and go through tp, pp and micro_batch upwards.", _tied(-1, -1, -1)),
        _other_count("dp forgotten in n_micro", "A replica has batch / dp sequences: n_micro = batch / (dp · micro_batch).",
                     lambda given, how: given["batch"] // how["micro_batch"]),
    ),
)
