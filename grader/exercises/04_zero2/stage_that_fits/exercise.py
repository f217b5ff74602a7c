"""The lowest stage of ZeRO, up to 2, at which a rank's bytes stay within a budget: all stages are tried."""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.formula_cases import FORMULAS, formula, single
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip

STAGES = (0, 1, 2)
BYTES = {"parameters": 2, "gradients": 2, "state": 12}
DIVIDED_FROM = {"parameters": 3, "gradients": 2, "state": 1}  # the first stage that does
M = 10**6
TOLERANCE = 1e-9  # of math.isclose


def _needed(inputs: Mapping[str, int], stage: int, sizes: Mapping[str, int] = BYTES,
            buffers_from: int = 2) -> Fraction:
    """All bytes of a rank, exactly. buffers_from: the first stage that needs buffers."""
    shares = (Fraction(size, inputs["n_ranks"] if stage >= DIVIDED_FROM[part] else 1) for part, size in sizes.items())
    buffers = inputs["buffer_bytes"] if stage >= buffers_from else 0
    return sum(shares) * inputs["n_parameters"] + inputs["activation_bytes"] + buffers


def _fitting(inputs: Mapping[str, int], **how: Any) -> list[int]:
    return [stage for stage in STAGES if _needed(inputs, stage, **how) <= inputs["budget_bytes"]]


def _lowest(inputs: Mapping[str, int], **how: Any) -> int | None:
    return min(_fitting(inputs, **how), default=None)


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    """Around the bounds of each stage, for a model of `size` parameters."""
    size, activations, n = draw.integer(2, 9) * 100 * M, draw.integer(3, 30) * 100 * M, 8

    def case(name: str, per_parameter: float, buffers: int = 10 * M, ranks: int = n, more: int = 0,
             size: int = size) -> Case:
        """The budget: activations, so many bytes a parameter, rounded down, and some more."""
        budget = int(per_parameter * size) + activations + more
        return single(name, n_parameters=size, n_ranks=ranks, activation_bytes=activations, buffer_bytes=buffers,
                      budget_bytes=budget)

    return [
        case("plenty", 40, buffers=size),
        case("16 bytes a parameter, to the byte", 16, buffers=size),
        case("one byte less", 16, more=-1),
        case("stage 1 to the byte", 5.5, buffers=2 * size),
        case("stage 1 to the byte, small buffers", 5.5, buffers=size // 10),
        case("16 bytes a parameter, buffers beyond the budget", 16, buffers=40 * size),
        case("half a byte less than stage 1 needs", 5.5, size=size + 1),
        case("stage 2 to the byte, with its buffers", 3.75, buffers=size // 10, more=size // 10),
        case("one byte less, with its buffers", 3.75, buffers=size // 10, more=size // 10 - 1),
        case("less than the parameters", 1.9, ranks=1000),
        case("2 ranks, buffers larger than the gradients", 10, buffers=2 * size, ranks=2),
        case("1 rank, a budget too small", 15, ranks=1),
    ]


def _chosen(id: str, choose: Callable[[dict[str, int]], int | None], hint: str) -> Slip:
    return formula(id, choose, hint)


EXERCISE = Exercise(
    title="The stage that fits",
    forbidden=FORMULAS,
    parameters=("n_parameters", "n_ranks", "activation_bytes", "buffer_bytes", "budget_bytes"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: _lowest(case.inputs[r])),
    points={VALUES: 2},
    slips=(
        # what errs in few cases comes first: of two that explain as many, the first one speaks
        _chosen("rounded down", lambda inputs: min(
            (stage for stage in STAGES if int(_needed(inputs, stage)) <= inputs["budget_bytes"]), default=None),
                "What is divided was rounded down: a budget that is exceeded by half a byte is exceeded. Use /, not //."),
        _chosen("activations forgotten", lambda inputs: _lowest(inputs | {"activation_bytes": 0}),
                "The activations are missing: no stage of ZeRO divides them, and every stage needs them."),
        _chosen("buffers forgotten", lambda inputs: _lowest(inputs | {"buffer_bytes": 0}),
                "The buffers are missing: at stage 2 they come on top of everything."),
        _chosen("nearly fits", lambda inputs: _lowest(inputs | {"budget_bytes": inputs["budget_bytes"] * (1 + TOLERANCE)}),
                "A budget that is exceeded by one byte is exceeded: math.isclose allows a billionth, which is 80 bytes of "
                "80 GB. Compare with <=, and nothing beside it."),
        _chosen("buffers taken off first", lambda inputs: _lowest(inputs) if (
            inputs["activation_bytes"] + inputs["buffer_bytes"] <= inputs["budget_bytes"]) else None,
                "Buffers that alone exceed the budget rule out stage 2 only: stages 0 and 1 are counted without them."),
        _chosen("stage 2 asked first", lambda inputs: _lowest(inputs) if 2 in _fitting(inputs) else None,
                "Where stage 2 does not fit, a lower one may: its buffers come on top. Ask each stage by itself."),
        _chosen("buffers from stage 1 on", lambda inputs: _lowest(inputs, buffers_from=1),
                "Buffers are counted at stage 1 too: only stage 2 has buckets beside the gradients."),
        _chosen("buffers everywhere", lambda inputs: _lowest(inputs, buffers_from=0),
                "Buffers are counted at every stage: only stage 2 has buckets beside the gradients."),
        _chosen("highest stage", lambda inputs: max(_fitting(inputs), default=None),
                "Asked is the lowest stage that fits: each higher one costs traffic or trouble."),
        _chosen("must stay below", lambda inputs: _lowest(inputs | {"budget_bytes": inputs["budget_bytes"] - 1}),
                "Exactly the budget still fits: <=, not <."),
        _chosen("3 for None", lambda inputs: 3 if _lowest(inputs) is None else _lowest(inputs),
                "Where no stage up to 2 fits, the answer is None: whether stage 3 would is not asked."),
        _chosen("None for 0", lambda inputs: _lowest(inputs) or None,
                "Where stage 0 fits, the answer is 0: Python takes 0 for false, so `or None` and `if stage:` lose it."),
        _chosen("parameters divided", lambda inputs: _lowest(inputs, sizes=BYTES | {"parameters": 0}),
                "The parameters themselves, 2 bytes each, stay whole at every one of these stages."),
        _chosen("state of 8 bytes", lambda inputs: _lowest(inputs, sizes=BYTES | {"state": 8}),
                "8 bytes are momentum and variance; the float32 master copy, 4 more, is state too: 12."),
        _chosen("always stage 2", lambda inputs: 2 if 2 in _fitting(inputs) else None,
                "Only stage 2 is tried: where less is enough, the lowest stage that fits is asked; and stage 2, with its "
                "buffers, may be the one that does not fit."),
    ),
)
