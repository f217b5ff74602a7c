"""A step's seconds by what they are spent on: computing, messages that nothing hides, the bubble."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from grader.exercises.shared.cases import counted, each_rank
from grader.exercises.shared.formula_cases import FORMULAS, single
from grader.judging.exercise import VALUES, Case, Draw, Exercise

Given = dict[str, Any]
AXES = ("tp", "pp", "dp")


def spent(given: Given) -> dict[str, float]:
    how, machine = given["layout"], given["machine"]
    compute = Fraction(given["flops"]) / (how["dp"] * how["tp"] * how["pp"]) / Fraction(machine["flops_per_s"])
    exposed = {axis: max(Fraction(0), sending_s(given, axis) - Fraction(given["hidden"][axis]) * compute) for axis in AXES}
    bubbles = Fraction(how["pp"] - 1, how["chunks"] * how["n_micro"])
    parts = {"compute": compute, **exposed, "bubble": bubbles * (compute + exposed["tp"] + exposed["pp"])}
    return {part: float(seconds) for part, seconds in parts.items()}


def sending_s(given: Given, axis: str) -> Fraction:
    """By the link that a group needs from its first device to its last, counted along the machine."""
    how, machine = given["layout"], given["machine"]
    reach = {"tp": how["tp"], "pp": how["tp"] * how["pp"], "dp": how["tp"] * how["pp"] * how["dp"]}[axis]
    link = machine["inside" if reach <= machine["devices_per_node"] else "between"]
    size, bandwidth = Fraction(given["traffic"][axis]), Fraction(link["bytes_per_s"])
    return given["messages"][axis] * Fraction(link["alpha_s"]) + size / bandwidth


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    links = {"inside": {"alpha_s": 2e-6, "bytes_per_s": 3e11}, "between": {"alpha_s": 5e-6, "bytes_per_s": 2.5e10}}

    def case(dp: int, tp: int, pp: int, n_micro: int, chunks: int = 1, hidden: Sequence[float] = (0.0, 0.0, 0.0),
             busy_s: float = 1.0, per_node: int = 8) -> Case:
        """busy_s: about how long a device computes."""
        sizes = {"tp": tp, "pp": pp, "dp": dp}
        traffic = {axis: draw.integer(10, 90) * 1e8 * (size > 1) for axis, size in sizes.items()}
        messages = {axis: draw.integer(2000, 9000) * (size > 1) for axis, size in sizes.items()}
        flops = dp * tp * pp * busy_s * draw.integer(10, 19) * 1e13
        return single(f"dp {dp}, tp {tp}, pp {pp}, {n_micro} micro-batches, {counted(chunks, 'chunk')}, "
                      f"nodes of {per_node}, hidden {'/'.join(f'{share:g}' for share in hidden)}",
                      flops=flops, traffic=traffic, messages=messages,
                      layout=sizes | {"n_micro": n_micro, "chunks": chunks},
                      machine={"flops_per_s": 1.5e14, "devices_per_node": per_node, **links},
                      hidden=dict(zip(AXES, hidden, strict=True)))

    cases = [case(1, 1, 1, 3), case(16, 8, 4, 32), case(4, 2, 1, 5, busy_s=0.1), case(2, 2, 4, 6),
             case(2, 1, 4, 10, hidden=(0, 0.125, 0.0625)), case(64, 8, 8, 24, chunks=3, hidden=(0.0, 0.03125, 0.25)),
             case(3, 6, 2, draw.integer(4, 9), per_node=6, hidden=(0.015625, 0.0, 0.03125)),
             case(2, 8, 2, 4, chunks=2, busy_s=0.2, hidden=(1.0, 0.0, 0.5)), case(2, 3, 2, 4)]
    if grading:
        cases += [case(draw.integer(2, 9), 4, 2, draw.integer(2, 9), hidden=(0, 0, draw.integer(0, 4) / 64))
                  for _ in range(3)]
    return cases


EXERCISE = Exercise(
    title="Where the seconds go",
    forbidden=FORMULAS,
    parameters=("flops", "traffic", "messages", "layout", "machine", "hidden"),
    make_cases=_cases,
    oracle=each_rank(lambda case, rank: spent(case.inputs[rank])),
    tolerance=1e-9,
    points={VALUES: 3},
)
