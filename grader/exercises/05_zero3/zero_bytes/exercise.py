"""What a rank holds without ZeRO and at its three stages: the published table, by one formula."""

from collections.abc import Callable, Mapping, Sequence
from operator import floordiv, truediv
from typing import Any

from grader.exercises.shared.cases import each_rank, ranks
from grader.exercises.shared.formula_cases import formula, single
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip

BYTES = {"parameters": 2, "gradients": 2, "state": 12}
DIVIDED_FROM = {"parameters": 3, "gradients": 2, "state": 1}  # the first stage that does


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(7_500_000_000, 64), (7_500_000_000, 1), (draw.integer(1, 99) * 10**6 + 1, draw.integer(3, 9))]
    return [single(f"stage {stage}, {size:,} parameters on {ranks(n)}", n_parameters=size, n_ranks=n, stage=stage)
            for size, n in sizes for stage in range(4)]


def _held(inputs: dict[str, Any], sizes: Mapping[str, int] = BYTES, divided_from: Mapping[str, int] = DIVIDED_FROM,
          share: Callable[[int, int], float] = truediv) -> float:
    each = (share(size, inputs["n_ranks"] if inputs["stage"] >= divided_from[part] else 1) for part, size in sizes.items())
    return float(sum(each) * inputs["n_parameters"])


EXERCISE = Exercise(
    title="The table of the ZeRO paper",
    parameters=("n_parameters", "n_ranks", "stage"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: _held(case.inputs[r])),
    tolerance=1e-6,
    points={VALUES: 2},
    slips=(
        Slip("stages shifted", "Stage 0 divides nothing: it is data parallelism. Stage 1 is the first that divides.",
             lambda case, r, right: _held(case.inputs[r] | {"stage": 1}),
             shows=lambda case: case.inputs[0]["stage"] == 0),
        Slip("parameters forgotten", "At stage 2 the 2 bytes of each parameter are still whole on every rank; some notes "
                                     "have (2 + K)Ψ/N, as if they were not there.",
             lambda case, r, right: _held(case.inputs[r], sizes=BYTES | {"parameters": 0}),
             shows=lambda case: case.inputs[0]["stage"] == 2),
        formula("gradients whole", lambda inputs: _held(inputs, divided_from=DIVIDED_FROM | {"gradients": 3}),
                "Stage 2 divides the gradients as well."),
        formula("parameters whole", lambda inputs: _held(inputs, divided_from=DIVIDED_FROM | {"parameters": 4}),
                "Stage 3 divides the parameters as well: nothing is left whole."),
        formula("master copy forgotten", lambda inputs: _held(inputs, sizes=BYTES | {"state": 8}),
                "K = 12: the state in mixed precision is momentum, variance and the float32 master copy."),
        formula("whole bytes", lambda inputs: _held(inputs, share=floordiv), "N need not divide: use /, not //."),
    ),
)
