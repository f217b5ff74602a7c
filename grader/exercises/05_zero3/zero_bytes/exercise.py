"""What a rank holds without ZeRO and at its three stages: the published table, by one formula."""

from collections.abc import Callable, Mapping, Sequence
from operator import floordiv, truediv
from typing import Any

from grader.exercises.shared.cases import each_rank, ranks
from grader.exercises.shared.formula_cases import FORMULAS, formula, single
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip

BYTES = {"parameters": 2, "gradients": 2, "state": 12}
DIVIDED_FROM = {"parameters": 3, "gradients": 2, "state": 1}  # the first stage that does


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    prime = (11, 13, 17)[draw.integer(0, 2)]  # and so few parameters that rounding shows
    sizes = [(7_500_000_000, 64), (7_500_000_000, 1), (draw.integer(3, 9) * prime + draw.integer(1, prime - 1), prime)]
    return [single(f"stage {stage}, {size:,} parameters on {ranks(n)}", n_parameters=size, n_ranks=n, stage=stage)
            for size, n in sizes for stage in range(4)]


def _held(inputs: dict[str, Any], sizes: Mapping[str, int] = BYTES, divided_from: Mapping[str, int] = DIVIDED_FROM,
          share: Callable[[int, int], float] = truediv, own_stage: bool = False) -> float:
    """Wrong ways: parts of other sizes, divided from other stages; each parameter's bytes shared out by themselves; each
    part divided at one stage only."""
    stage = inputs["stage"]
    divided = {part: stage == first if own_stage else stage >= first for part, first in divided_from.items()}
    each = (share(size, inputs["n_ranks"] if divided[part] else 1) for part, size in sizes.items())
    return float(sum(each) * inputs["n_parameters"])


def _in_shards_of(inputs: dict[str, Any], numbers: int) -> float:
    """Bytes where a shard has so many numbers."""
    return _held(inputs | {"n_parameters": 1}, share=lambda size, n: size * (numbers if n > 1 else inputs["n_parameters"]))


NEED_NOT_DIVIDE = "N need not divide: use / and round nowhere, neither down (//) nor up."


EXERCISE = Exercise(
    title="The table of the ZeRO paper",
    forbidden=FORMULAS,
    parameters=("n_parameters", "n_ranks", "stage"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: _held(case.inputs[r])),
    tolerance=1e-9,
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
        formula("master copy whole", lambda inputs: _held(inputs, sizes=BYTES | {"state": 8}) + 4.0 * inputs["n_parameters"],
                "The float32 master copy belongs to the optimizer's state: stage 1 divides all 12 bytes, not only the 8 of "
                "momentum and variance."),
        formula("float32 gradients", lambda inputs: _held(inputs, sizes=BYTES | {"gradients": 4}),
                "In mixed precision gradients have 2 bytes, as parameters do; all float32 numbers are in the state."),
        formula("parts exchanged", lambda inputs: _held(inputs, divided_from={"parameters": 1, "gradients": 2, "state": 3}),
                "The parts are divided in another order: stage 1 divides the largest, the 12 bytes of optimizer state, and "
                "the parameters come last."),
        formula("own stage only", lambda inputs: _held(inputs, own_stage=True),
                "The stages add up: what an earlier stage divides stays divided in the later ones."),
        formula("whole bytes", lambda inputs: _held(inputs, share=floordiv), NEED_NOT_DIVIDE),
        Slip("whole bytes", NEED_NOT_DIVIDE, lambda case, r, right: float(int(right[r]))),
        formula("whole bytes", lambda inputs: _in_shards_of(inputs, inputs["n_parameters"] // inputs["n_ranks"]),
                NEED_NOT_DIVIDE),
        formula("whole bytes", lambda inputs: _in_shards_of(inputs, -(-inputs["n_parameters"] // inputs["n_ranks"])),
                NEED_NOT_DIVIDE),
    ),
)
