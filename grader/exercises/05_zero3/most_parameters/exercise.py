"""The largest model that fits at a stage of ZeRO: the number of parameters is raised until a rank is full."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from operator import floordiv, truediv
from typing import Any

from grader.exercises.shared.cases import each_rank, ranks
from grader.exercises.shared.formula_cases import FORMULAS, first_enough, formula, single
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip

WHOLE = {0: 16, 1: 4, 2: 2, 3: 0}  # of a parameter's 16 bytes those that every rank holds


def _full(inputs: dict[str, Any], size: int, whole: dict[int, int] = WHOLE, of: int = 16) -> bool:
    """Whether a model of `size` parameters is too large, in whole numbers: n times what a rank holds, and has.

    whole, of: other bytes a parameter, on every rank and in all.
    """
    n, on_each = inputs["n_ranks"], whole[inputs["stage"]]
    return (on_each * n + of - on_each) * size > n * (inputs["device_bytes"] - inputs["other_bytes"])


def _most(inputs: dict[str, Any], **how: Any) -> float:
    """One less than the first that is too large."""
    return float(first_enough(lambda size: _full(inputs, size, **how)) - 1)


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def of(stage: int, device_bytes: int, n: int, other_bytes: int = 0) -> Case:
        return single(f"stage {stage}, {ranks(n)} of {device_bytes:,} B, {other_bytes:,} B of other things",
                      device_bytes=device_bytes, other_bytes=other_bytes, n_ranks=n, stage=stage)

    few, prime = draw.integer(2, 9) * 1000 + draw.integer(1, 9), (7, 11, 13)[draw.integer(0, 2)]
    cases = [of(stage, *sizes) for sizes in ((80_000_000_000, 64), (80_000_000_000, 1),
                                             (few, prime, draw.integer(100, 900))) for stage in range(4)]
    # Devices that are exactly full. Rounded floats lose a parameter in the second (by // and by a reciprocal) and in the
    # third (by int(… / …)), and in the first none.
    return [*cases, of(0, 1025 * 16, 3), of(1, 1025 * (4 * 7 + 12), 7), of(2, 1025 * (2 * 6 + 14), 6)]


def _slip(id: str, hint: str, **how: Any) -> Slip:
    return formula(id, lambda inputs: _most(inputs, **how), hint)


def _in_floats(inputs: dict[str, Any], divide: Callable[[float, float], float] = truediv) -> float:
    """Not rounded, or by a division that rounds."""
    on_each = WHOLE[inputs["stage"]]
    return divide(inputs["device_bytes"] - inputs["other_bytes"], on_each + (16 - on_each) / inputs["n_ranks"])


EXERCISE = Exercise(
    title="The largest model that fits",
    forbidden=FORMULAS,
    parameters=("device_bytes", "other_bytes", "n_ranks", "stage"),
    make_cases=_cases,
    oracle=each_rank(lambda case, rank: _most(case.inputs[rank])),
    points={VALUES: 2},
    slips=(
        _slip("parameters divided at 2", "At stage 2 every rank still holds the 2 bytes of each parameter itself.",
              whole=WHOLE | {2: 0}),
        _slip("memory pooled", "That is all ranks' memory together, divided by 16, at every stage. But below stage 3 some "
              "bytes of each parameter lie on every rank.", whole=dict.fromkeys(range(4), 0)),
        _slip("nothing divided", "That is 16 bytes a parameter on every rank: divide what the stage divides.",
              whole=dict.fromkeys(range(4), 16)),
        _slip("stages shifted", "Stage 0 is data parallelism and divides nothing; stage 1 divides the optimizer state.",
              whole={0: 4, 1: 2, 2: 0, 3: 0}),
        _slip("gradients first", "Stage 1 divides the optimizer state. Stage 2 divides the gradients as well, and stage "
              "3 everything.", whole={0: 16, 1: 14, 2: 2, 3: 0}),
        _slip("one thing a stage", "A stage also divides what the stages before it divide: stage 3 divides all 16 bytes.",
              whole={0: 16, 1: 4, 2: 14, 3: 14}),
        _slip("state of 8 bytes", "The float32 master copy is optimizer state too: 12 bytes, not 8, so 16 in all.", of=12,
              whole=WHOLE | {0: 12}),
        formula("others forgotten", lambda inputs: _most(inputs | {"other_bytes": 0}),
                "The model gets only what other_bytes leave of the device."),
        formula("others divided", lambda inputs: _most(inputs | {"other_bytes": inputs["other_bytes"] / inputs["n_ranks"]}),
                "Every device loses other_bytes: take them off each device's memory, and don't divide them by the ranks."),
        formula("not rounded", _in_floats, "There are no parts of parameters: return a whole number, rounded down."),
        formula("rounded on the way", lambda inputs: _in_floats(inputs, floordiv),
                "One too few where a model fits exactly, because a float was rounded on the way. Multiply by n first, and "
                "divide whole numbers with //."),
        formula("full device refused", lambda inputs: _most(inputs | {
                    "device_bytes": inputs["device_bytes"] - Fraction(1, inputs["n_ranks"])}),
                "One too few where a device would be exactly full. It isn't too full then, so the model still fits."),
        formula("one too many", lambda inputs: _most(inputs) + 1.0,
                "That is one parameter too many: round down, not up, and a device that is exactly full isn't too full."),
    ),
)
