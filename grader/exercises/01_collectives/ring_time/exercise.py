"""The α–β cost of ring collectives."""

import math

from grader.exercises.shared.cases import ranks
from grader.exercises.shared.formula_cases import FORMULAS, formula, single
from grader.judging.exercise import Case, Draw, Exercise
from utils.costs.formulas import ring_time_s

MIB, GIB = 2.0**20, 2.0**30


def _cases(draw: Draw, grading: bool) -> list[Case]:
    wanted = [("all_reduce", 16 * MIB, 4), ("reduce_scatter", 16 * MIB, 4), ("all_gather", 4 * MIB, 3),
              ("all_reduce", 4096.0, 2), ("all_reduce", GIB, 64), ("all_gather", MIB, 1)]
    if grading:
        wanted += [(op, draw.integer(1, 1000) * MIB, draw.integer(2, 100)) for op in ("all_reduce", "reduce_scatter")]
    return [single(f"{op}, {_format_bytes(size)}, {ranks(n)}", op=op, total_bytes=size, n_ranks=n,
                   alpha_s=draw.integer(5, 50) * 1e-6, beta_s_per_byte=draw.integer(2, 40) * 1e-11)
            for op, size, n in wanted]


def _format_bytes(size: float) -> str:
    return f"{size / 1024:g} KiB" if size < MIB else f"{size / MIB:g} MiB"


def _right(i: dict, **changed) -> float:
    """The right time; with `changed` inputs, if there are any."""
    return ring_time_s(*(i | changed).values())


def _n_steps(i: dict) -> float:
    """One rank more, and as many bytes a step."""
    return _right(i, n_ranks=i["n_ranks"] + 1, total_bytes=i["total_bytes"] / i["n_ranks"] * (i["n_ranks"] + 1))


def _latencies(i: dict, count: int) -> float:
    """α as often as `count` says."""
    return count * i["alpha_s"] + _right(i, alpha_s=0.0)


def _phases(i: dict) -> int:
    return 2 if i["op"] == "all_reduce" else 1


EXERCISE = Exercise(
    title="Predict the time of a ring collective",
    forbidden=FORMULAS,
    parameters=("op", "total_bytes", "n_ranks", "alpha_s", "beta_s_per_byte"),
    make_cases=_cases,
    oracle=lambda case: [_right(case.inputs[0])],
    points={"values": 2},
    tolerance=1e-6,
    slips=(
        formula("n steps", _n_steps, "You count n steps a phase: a ring needs n−1, since each chunk starts on one rank "
                                     "and has n−1 others to visit."),
        formula("whole array a step", lambda i: _right(i, total_bytes=i["total_bytes"] * i["n_ranks"]),
                "Your steps carry the whole array: each step carries one chunk, M/n bytes."),
        formula("one phase", lambda i: _right(i, op="all_gather"),
                "The all-reduce takes half of what it should: it is a reduce-scatter and then an all-gather, 2(n−1) "
                "steps."),
        formula("always two phases", lambda i: _right(i, op="all_reduce"),
                "Reduce-scatter and all-gather take twice what they should: each is one half of an all-reduce, n−1 "
                "steps."),
        formula("both ways counted", lambda i: 2 * _right(i),
                "All three take twice what they should: in a step a rank sends and receives at the same time, and that "
                "costs one message."),
        formula("latency once a phase", lambda i: _latencies(i, _phases(i)),
                "You count α once a phase: every step is a message of its own and costs its own α."),
        formula("latency once", lambda i: _latencies(i, 1),
                "You count α once: every step is a message of its own and costs its own α."),
        formula("latency of n steps", lambda i: _latencies(i, _phases(i) * i["n_ranks"]),
                "You count α once too often a phase: a ring takes n−1 steps, not n."),
        formula("latency forgotten", lambda i: _right(i, alpha_s=0.0),
                "Only the bytes are counted: each step also costs α, the latency of a message."),
        formula("bytes forgotten", lambda i: _right(i, beta_s_per_byte=0.0),
                "Only the latencies are counted: each step also takes β for each of its M/n bytes."),
        formula("chunks of n−1", lambda i: _right(i, total_bytes=i["total_bytes"] * i["n_ranks"] / max(i["n_ranks"] - 1, 1)),
                "Your chunks are M/(n−1) bytes: the array is cut into n chunks, although there are n−1 steps."),
        formula("milliseconds", lambda i: 1e3 * _right(i), "These are milliseconds: seconds are asked."),
        formula("log2 n steps", lambda i: _phases(i) * math.ceil(math.log2(i["n_ranks"])) * (
            i["alpha_s"] + i["total_bytes"] / i["n_ranks"] * i["beta_s_per_byte"]),
                "You count log2 n steps a phase, as in a tree: a ring takes n−1."),
        formula("alpha and beta swapped",
                lambda i: _right(i, alpha_s=i["beta_s_per_byte"], beta_s_per_byte=i["alpha_s"]),
                "α and β have changed places: α is seconds a message, β seconds a byte."),
        formula("divided by beta", lambda i: _right(i, beta_s_per_byte=1 / i["beta_s_per_byte"]),
                "You divide the bytes by β, as if it were a bandwidth: β is seconds a byte, so multiply."),
        formula("steps of a tree", lambda i: _latencies(i, _phases(i) * math.ceil(math.log2(i["n_ranks"]))),
                "You count log2 n messages, as in a tree: a ring takes n−1 steps a phase."),
    ),
)
