"""What a device sends in a step for its layers, by axis: tensor, pipeline and data parallelism together."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.formula_cases import FORMULAS, formula, single
from grader.exercises.shared.gpt_layouts import (
    GPT_175B,
    SMALL,
    Given,
    activation_numbers,
    in_words,
    layer_numbers,
    layout,
)
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip

ITEM_BYTES = 2


# ── the parts, each as a function that a slip replaces ──


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


def borders(given: Given) -> int:
    return (given["stage"] > 0) + (given["stage"] < given["layout"]["pp"] - 1)


def hop(given: Given) -> Fraction:
    """Numbers that cross a border, one way, from one device."""
    how = given["layout"]
    return Fraction(activation_numbers(given), how["tp"] if how["sequence_parallel"] else 1)


def layer_runs(given: Given) -> Fraction:
    """Layers of the device × micro-batches."""
    return Fraction(given["shape"]["layers"] * given["layout"]["n_micro"], given["layout"]["pp"])


USUAL = {"share": share, "tp_passes": tp_passes, "dp_passes": dp_passes, "borders": borders, "hop": hop,
         "layer_runs": layer_runs, "weights": layer_numbers, "item_bytes": ITEM_BYTES}


def sent(given: Given, **ways: Any) -> dict[str, float]:
    """ways: parts that are counted otherwise."""
    use, how = USUAL | ways, given["layout"]
    numbers = {
        "tp": use["share"](how["tp"]) * use["tp_passes"](given) * use["layer_runs"](given) * activation_numbers(given),
        "pp": use["borders"](given) * how["n_micro"] * use["hop"](given),
        "dp": use["share"](how["dp"]) * use["dp_passes"](given) * use["weights"](given),
    }
    return {axis: float(use["item_bytes"] * count) for axis, count in numbers.items()}


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


# ── other counts ──


def _fewer_passes(of: Callable[[Given], int]) -> Callable[[Given], int]:
    return lambda given: tp_passes(given) - of(given)


def _zero(*passes: Callable[[int], int]) -> Callable[[Given], int]:
    """Passes over the weights at stages 0 to 3, by the number of micro-batches."""
    return lambda given: passes[given["layout"]["zero"]](given["layout"]["n_micro"])


def _two(k: int) -> int:
    return 2


def _cut_at_hop(given: Given) -> Fraction:
    return Fraction(activation_numbers(given), given["layout"]["tp"])


def _in_a_ring(given: Given) -> Fraction:
    return borders(given) * share(given["layout"]["pp"])


def _slip(id: str, hint: str, **ways: Any) -> Slip:
    return formula(id, lambda given: sent(given, **ways), hint)


EXERCISE = Exercise(
    title="What a device sends",
    forbidden=FORMULAS,
    parameters=("shape", "layout", "stage"),
    make_cases=_cases,
    oracle=each_rank(lambda case, rank: sent(case.inputs[rank])),
    tolerance=1e-9,
    points={VALUES: 3},
    slips=(
        _slip("whole array to each", "In a ring a rank sends (n−1)/n of the array in each pass, not n − 1 whole ones.",
              share=lambda n: n - 1),
        _slip("own share sent", "A rank does not send itself its own share: (n−1)/n.", share=lambda n: Fraction(n > 1)),
        _slip("numbers for bytes", "These are numbers. In 16-bit formats each takes 2 bytes.", item_bytes=1),
        _slip("4 bytes a number", "Everything travels with 2 bytes a number.", item_bytes=4),
        _slip("forward only", "Tensor parallelism sends in backward, too: each f and each g has its conjugate.",
              tp_passes=_fewer_passes(lambda given: 4 + 2 * given["layout"]["sequence_parallel"])),
        _slip("one pass for an all-reduce", "An all-reduce is two passes, a reduce-scatter and an all-gather.",
              tp_passes=_fewer_passes(lambda given: 4 + 2 * (given["layout"]["recompute"] == "full"))),
        _slip("half of a layer", "A layer has two pairs, attention and MLP: two all-reduces forward and two backward.",
              tp_passes=lambda given: tp_passes(given) // 2),
        _slip("second gather forgotten", "To keep 34/t bytes, sequence parallelism keeps pieces, and gathers the inputs of "
              "qkv and up once more in backward: a quarter more traffic, as in unit 08.",
              tp_passes=_fewer_passes(lambda given: 2 * given["layout"]["sequence_parallel"])),
        _slip("recomputation is free", "Full recomputation runs the whole forward pass again, its messages as well.",
              tp_passes=_fewer_passes(lambda given: 4 * (given["layout"]["recompute"] == "full"))),
        _slip("recomputation sends all again", "Full recomputation repeats the forward pass, half of what is sent, not all.",
              tp_passes=lambda given: tp_passes(given) + 4 * (given["layout"]["recompute"] == "full")),
        _slip("selective sends again", "Selective recomputation repeats the core of attention, in which nothing is sent.",
              tp_passes=lambda given: tp_passes(given) + 4 * (given["layout"]["recompute"] == "selective")),
        _slip("all layers", "A device sends for the layers of its own stage, layers / pp.",
              layer_runs=lambda given: given["shape"]["layers"] * given["layout"]["n_micro"]),
        _slip("one micro-batch", "Every micro-batch is sent for: activations travel n_micro times a step.",
              layer_runs=lambda given: layer_runs(given) / given["layout"]["n_micro"],
              borders=lambda given: Fraction(borders(given), given["layout"]["n_micro"])),
        _slip("tensor parallel once a step", "Tensor parallelism sends for every micro-batch.",
              layer_runs=lambda given: layer_runs(given) / given["layout"]["n_micro"]),
        _slip("ends like the middle", "The first stage sends no gradient backwards, the last no activations forwards: count "
              "the neighbours.", borders=lambda given: 2),
        _slip("one way only", "Across each border activations go one way and gradients the other: a middle stage "
              "sends both.", borders=lambda given: min(1, borders(given))),
        _slip("both ways on each border", "What a device sends, not what crosses: over the border to the next stage it "
              "sends activations, over that to the previous one gradients.", borders=lambda given: 2 * borders(given)),
        _slip("piece not sent", "With sequence parallelism a device has, and sends to the next stage, its piece only.",
              hop=lambda given: Fraction(activation_numbers(given))),
        _slip("always pieces", "Without sequence parallelism every device of a tensor group has the whole activation, and "
              "sends it.", hop=_cut_at_hop),
        _slip("pipeline as a ring", "Between stages there is no ring: a message goes to one neighbour, whole.",
              borders=_in_a_ring),
        _slip("data parallel for all weights", "A device reduces the gradients of its own weights: tp and pp divide them.",
              weights=lambda given: layer_numbers(given) * given["layout"]["tp"] * given["layout"]["pp"]),
        _slip("weights cut by tp only", "A device has the weights of its stage only, 1/pp of them.",
              weights=lambda given: layer_numbers(given) * given["layout"]["pp"]),
        _slip("ZeRO-3 for one micro-batch", "ZeRO-3's three passes are those of one micro-batch: weights are freed, and "
              "gathered again for the next.", dp_passes=_zero(_two, _two, lambda k: k + 1, lambda k: 3)),
        _slip("ZeRO-2 once a step", "ZeRO-2 has nowhere to keep a whole gradient: it reduce-scatters after every "
              "micro-batch, and gathers once.", dp_passes=_zero(_two, _two, _two, lambda k: 3 * k)),
        _slip("ZeRO-3 gathers once", "At stage 3 a layer's weights are gathered in forward and again in backward: with the "
              "reduce-scatter three passes.", dp_passes=_zero(_two, _two, lambda k: k + 1, lambda k: 2 * k)),
        _slip("once a step", "From stage 2 on ZeRO keeps no whole gradient, so each micro-batch is reduce-scattered; at "
              "stage 3 the weights are gathered for each as well.", dp_passes=_zero(_two, _two, _two, lambda k: 3)),
        _slip("two passes at every stage", "From stage 2 on accumulation is not free: reduce-scattered after every "
              "micro-batch. Stage 3 also gathers the weights twice for each.", dp_passes=_zero(_two, _two, _two, _two)),
        _slip("accumulation sends", "Without ZeRO, and with stage 1, gradients add up on the device and travel once a step.",
              dp_passes=_zero(lambda k: 2 * k, lambda k: 2 * k, lambda k: k + 1, lambda k: 3 * k)),
        _slip("ZeRO-1 costs more", "ZeRO-1 sends what data parallelism sends: reduce-scatter and all-gather are an "
              "all-reduce.", dp_passes=_zero(_two, lambda k: 3, lambda k: k + 1, lambda k: 3 * k)),
    ),
)
