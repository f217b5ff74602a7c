"""The α–β cost of ring collectives."""

from grader.exercises.shared.cases import ranks
from grader.exercises.shared.formula_cases import FORMULAS, single
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


EXERCISE = Exercise(
    title="Predict the time of a ring collective",
    forbidden=FORMULAS,
    parameters=("op", "total_bytes", "n_ranks", "alpha_s", "beta_s_per_byte"),
    make_cases=_cases,
    oracle=lambda case: [_right(case.inputs[0])],
    points={"values": 2},
    tolerance=1e-6,
)
