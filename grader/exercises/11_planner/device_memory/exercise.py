"""What the fullest device of a GPT holds under 1F1B: parameters, gradients, state, activations in flight, logits."""

from collections.abc import Sequence
from fractions import Fraction

from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.formula_cases import FORMULAS, single
from grader.exercises.shared.gpt_layouts import (
    GPT_175B,
    SMALL,
    WIDE_VOCABULARY,
    Given,
    activation_numbers,
    in_words,
    layer_numbers,
    layout,
)
from grader.judging.exercise import VALUES, Case, Draw, Exercise

DIVIDED_FROM = {"parameters": 3, "gradients": 2, "optimizer state": 1}  # the first stage of ZeRO that does
OF_ZERO, OF_MEGATRON = (dict(zip(DIVIDED_FROM, sizes, strict=True)) for sizes in ((2, 2, 12), (2, 4, 12)))


def embedding(given: Given, stage: int) -> Fraction:
    shape, how = given["shape"], given["layout"]
    return Fraction(shape["vocabulary"] * shape["hidden"], how["tp"]) * (stage in (0, how["pp"] - 1))


def kept(given: Given) -> Fraction:
    """Bytes that a layer keeps of one micro-batch."""
    shape, how = given["shape"], given["layout"]
    if how["recompute"] == "full":
        return Fraction(2 * activation_numbers(given), how["tp"] if how["sequence_parallel"] else 1)
    whole = 0 if how["sequence_parallel"] else 10
    core = Fraction(5 * shape["heads"] * shape["sequence"], shape["hidden"]) if how["recompute"] == "none" else 0
    return activation_numbers(given) * (whole + (34 - whole + core) / Fraction(how["tp"]))


def logits(given: Given, stage: int) -> Fraction:
    shape, how = given["shape"], given["layout"]
    numbers = shape["sequence"] * how["micro_batch"] * shape["vocabulary"]
    return Fraction(4 * numbers, how["tp"]) * (stage == how["pp"] - 1)


def held(given: Given, stage: int) -> dict[str, Fraction]:
    how, numbers = given["layout"], layer_numbers(given) + embedding(given, stage)
    parts = {part: numbers * given["bytes_of"][part] / (how["dp"] if how["zero"] >= first else 1)
             for part, first in DIVIDED_FROM.items()}
    in_flight = min(how["pp"] - stage, how["n_micro"])
    activations = in_flight * Fraction(given["shape"]["layers"], how["pp"]) * kept(given)
    return parts | {"activations": activations, "logits": logits(given, stage)}


def fullest(given: Given) -> dict[str, float]:
    of_stages = [held(given, stage) for stage in range(given["layout"]["pp"])]
    most = max(of_stages, key=lambda parts: sum(parts.values()))
    return {part: float(size) for part, size in most.items()}


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    layouts = [
        (GPT_175B, layout(8, 8, 8, parallel=True, recompute="selective", n_micro=64), OF_MEGATRON),
        (GPT_175B, layout(16, 8, 8, zero=0, recompute="full", micro_batch=2, n_micro=12), OF_ZERO),
        (SMALL, layout(4, 1, 1, zero=3, parallel=True, micro_batch=2, n_micro=draw.integer(3, 7)), OF_ZERO),
        (SMALL, layout(draw.integer(3, 9), 3, 4, zero=2, micro_batch=3, n_micro=2), OF_MEGATRON),
        (SMALL, layout(5, 2, 2, zero=3, parallel=True, recompute="full", n_micro=draw.integer(4, 9)), OF_ZERO),
        (SMALL, layout(6, 3, 3, zero=1, recompute="selective", micro_batch=draw.integer(1, 4)), OF_ZERO),
        (WIDE_VOCABULARY, layout(2, 2, 4, parallel=True, recompute="full", micro_batch=2, n_micro=6), OF_MEGATRON),
        (WIDE_VOCABULARY, layout(3, 4, 2, zero=2, recompute="selective"), OF_ZERO | {"optimizer state": 8}),
    ]
    if grading:
        layouts += [(SMALL, layout(draw.integer(1, 9), 6, 6, zero=zero, parallel=bool(zero % 2), micro_batch=2,
                                   n_micro=draw.integer(2, 12)), OF_ZERO) for zero in range(4)]
    return [single(f"{shape['layers']} layers: {in_words(how)}", shape=shape, layout=how, bytes_of=bytes_of)
            for shape, how, bytes_of in layouts]


EXERCISE = Exercise(
    title="The fullest device",
    forbidden=FORMULAS,
    parameters=("shape", "layout", "bytes_of"),
    make_cases=_cases,
    oracle=each_rank(lambda case, rank: fullest(case.inputs[rank])),
    tolerance=1e-9,
    points={VALUES: 3},
)
