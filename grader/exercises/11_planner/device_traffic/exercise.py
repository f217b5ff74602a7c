"""What a device sends in a step for its layers, by axis: tensor, pipeline and data parallelism together."""

from collections.abc import Sequence
from fractions import Fraction

from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.formula_cases import FORMULAS, single
from grader.exercises.shared.gpt_layouts import GPT_175B, SMALL, Given, activation_numbers, in_words, layer_numbers, layout
from grader.judging.exercise import VALUES, Case, Draw, Exercise

ITEM_BYTES = 2


def share(n: int) -> Fraction:
    """Of an array, what a rank sends in a ring's reduce-scatter, or all-gather."""
    return Fraction(n - 1, n)


def tp_passes(given: Given) -> int:
    """A layer's, for one micro-batch: reduce-scatters and all-gathers, an all-reduce being one of each."""
    how = given["layout"]
    return 8 + (2 if how["sequence_parallel"] else 0) + (4 if how["recompute"] == "full" else 0)


def dp_passes(given: Given) -> int:
    k = given["layout"]["n_micro"]
    return (2, 2, k + 1, 3 * k)[given["layout"]["zero"]]


def hop(given: Given) -> Fraction:
    """Numbers that cross a border, one way, from one device."""
    how = given["layout"]
    return Fraction(activation_numbers(given), how["tp"] if how["sequence_parallel"] else 1)


def sent(given: Given) -> dict[str, float]:
    how = given["layout"]
    layer_runs = Fraction(given["shape"]["layers"] * how["n_micro"], how["pp"])  # layers of the device × micro-batches
    borders = (given["stage"] > 0) + (given["stage"] < how["pp"] - 1)
    numbers = {
        "tp": share(how["tp"]) * tp_passes(given) * layer_runs * activation_numbers(given),
        "pp": borders * how["n_micro"] * hop(given),
        "dp": share(how["dp"]) * dp_passes(given) * layer_numbers(given),
    }
    return {axis: float(ITEM_BYTES * count) for axis, count in numbers.items()}


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    layouts = [
        (GPT_175B, layout(8, 8, 8, parallel=True, recompute="selective", n_micro=64), 3),
        (GPT_175B, layout(16, 8, 4, zero=0, recompute="full", micro_batch=2, n_micro=12), 0),
        (SMALL, layout(4, 3, 1, zero=3, parallel=True, recompute="full", micro_batch=2, n_micro=draw.integer(3, 7)), 0),
        (SMALL, layout(draw.integer(3, 9), 2, 4, zero=2, micro_batch=3, n_micro=draw.integer(2, 5)), 2),
        (SMALL, layout(1, 3, 3, zero=1, parallel=True, micro_batch=draw.integer(1, 4), n_micro=6), 2),
        (SMALL, layout(5, 1, 6, zero=3, recompute="selective", n_micro=draw.integer(5, 9)), 1),
        (SMALL, layout(2, 6, 2, zero=1, n_micro=1), 1),
    ]
    if grading:
        layouts += [(SMALL, layout(draw.integer(2, 9), 3, 4, zero=zero, parallel=bool(zero % 2), micro_batch=2,
                                   n_micro=draw.integer(2, 12)), draw.integer(0, 3)) for zero in range(4)]
    return [single(f"stage {stage} of {in_words(how)}", shape=shape, layout=how, stage=stage)
            for shape, how, stage in layouts]


EXERCISE = Exercise(
    title="What a device sends",
    forbidden=FORMULAS,
    parameters=("shape", "layout", "stage"),
    make_cases=_cases,
    oracle=each_rank(lambda case, rank: sent(case.inputs[rank])),
    tolerance=1e-9,
    points={VALUES: 3},
)
