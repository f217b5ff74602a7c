"""What the fullest device of a GPT holds under 1F1B: parameters, gradients, state, activations in flight, logits."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.formula_cases import FORMULAS, formula, single
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
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip

DIVIDED_FROM = {"parameters": 3, "gradients": 2, "optimizer state": 1}  # the first stage of ZeRO that does
OF_ZERO, OF_MEGATRON = (dict(zip(DIVIDED_FROM, sizes, strict=True)) for sizes in ((2, 2, 12), (2, 4, 12)))


# ── the parts, each as a function that a slip replaces ──


def embedding(given: Given, stage: int) -> Fraction:
    shape, how = given["shape"], given["layout"]
    return Fraction(shape["vocabulary"] * shape["hidden"], how["tp"]) * (stage in (0, how["pp"] - 1))


def divided(given: Given, part: str) -> int:
    return given["layout"]["dp"] if given["layout"]["zero"] >= DIVIDED_FROM[part] else 1


def in_flight(given: Given, stage: int) -> int:
    return min(given["layout"]["pp"] - stage, given["layout"]["n_micro"])


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


def stage_layers(given: Given) -> Fraction:
    return Fraction(given["shape"]["layers"], given["layout"]["pp"])


USUAL = {"layers": layer_numbers, "embedding": embedding, "divided": divided, "in_flight": in_flight, "kept": kept,
         "logits": logits, "stage_layers": stage_layers, "bytes_of": lambda given: given["bytes_of"],
         "stages": lambda given: range(given["layout"]["pp"]), "fullest": max}


def held(given: Given, stage: int, use: dict[str, Callable]) -> dict[str, Fraction]:
    numbers = use["layers"](given) + use["embedding"](given, stage)
    bytes_of = use["bytes_of"](given)
    parts = {part: numbers * bytes_of[part] / use["divided"](given, part) for part in DIVIDED_FROM}
    activations = use["in_flight"](given, stage) * use["stage_layers"](given) * use["kept"](given)
    return parts | {"activations": activations, "logits": use["logits"](given, stage)}


def fullest(given: Given, **ways: Callable) -> dict[str, float]:
    """ways: parts that are counted otherwise."""
    use = USUAL | ways
    of_stages = [held(given, stage, use) for stage in use["stages"](given)]
    most = use["fullest"](of_stages, key=lambda parts: sum(parts.values()))
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


# ── other counts ──


def _as_if(count: Callable[..., Any], **others: Any) -> Callable[..., Any]:
    """A part counted as if the layout were another."""
    return lambda given, *more: count(given | {"layout": given["layout"] | others}, *more)


def _by_all_devices(given: Given, part: str) -> int:
    how = given["layout"]
    return divided(given, part) * (how["tp"] * how["pp"] if how["zero"] >= DIVIDED_FROM[part] else 1)


def _divided_from(**first: int) -> Callable[[Given, str], int]:
    """first: parts that another stage of ZeRO is the first to divide."""
    return lambda given, part: given["layout"]["dp"] if given["layout"]["zero"] >= (DIVIDED_FROM | first)[part] else 1


def _twice_on_one(given: Given, stage: int) -> Fraction:
    return embedding(given, stage) * (2 if given["layout"]["pp"] == 1 else 1)


def _spread(given: Given, stage: int) -> Fraction:
    """As a share of all parameters, divided by tp·pp."""
    return _as_if(embedding, pp=1)(given, 0) / given["layout"]["pp"]


def _slip(id: str, hint: str, **ways: Callable) -> Slip:
    return formula(id, lambda given: fullest(given, **ways), hint)


EXERCISE = Exercise(
    title="The fullest device",
    forbidden=FORMULAS,
    parameters=("shape", "layout", "bytes_of"),
    make_cases=_cases,
    oracle=each_rank(lambda case, rank: fullest(case.inputs[rank])),
    tolerance=1e-9,
    points={VALUES: 3},
    slips=(
        _slip("embedding on the first stage only", "Head and embedding are tied, and on different stages: with a pipeline "
              "the last stage has a copy as well.",
              embedding=lambda given, stage: embedding(given, stage) * (stage == 0)),
        _slip("embedding twice", "Without a pipeline first and last stage are one, and the tied embedding is there once.",
              embedding=_twice_on_one),
        _slip("embedding forgotten", "The embedding is missing: V·h more on the first and on the last stage.",
              embedding=lambda given, stage: Fraction(0)),
        _slip("embedding spread over stages", "A pipeline does not divide the embedding: it is whole on the first stage, "
              "and on the last. Count it apart from the layers.", embedding=_spread),
        _slip("embedding not cut", "Tensor parallelism cuts the embedding too, along the vocabulary.",
              embedding=_as_if(embedding, tp=1)),
        _slip("all layers on every stage", "A stage has layers / pp of the layers, their weights and their activations.",
              layers=_as_if(layer_numbers, pp=1),
              stage_layers=lambda given: given["shape"]["layers"]),
        _slip("activations of all layers", "A stage keeps activations of its own layers only, layers / pp of them; more "
              "than one micro-batch of them is in flight.", stage_layers=lambda given: given["shape"]["layers"]),
        _slip("divided by all devices", "ZeRO divides among the dp devices that hold the same weights. Those of a tensor or "
              "pipeline group hold others.", divided=_by_all_devices),
        *(_slip("stages mixed up", "The stages of ZeRO are mixed up: from 1 on the optimizer's state is divided over dp, "
                "from 2 on the gradients as well, from 3 on the parameters as well.", divided=_divided_from(**first))
          for first in ({"gradients": 1}, {"parameters": 2}, {"gradients": 1, "parameters": 2}, {"gradients": 3})),
        _slip("nothing divided", "From stage 1 on ZeRO divides the state over dp, from 2 on the gradients, from 3 on the "
              "parameters.", divided=lambda given, part: 1),
        _slip("always divided", "Stage 0 divides nothing; 1 the state alone, 2 gradients as well, 3 parameters as well.",
              divided=lambda given, part: given["layout"]["dp"]),
        _slip("own stage only", "ZeRO's stages add up: what an earlier one divides stays divided in the later ones.",
              divided=lambda given, part: given["layout"]["dp"] if given["layout"]["zero"] == DIVIDED_FROM[part] else 1),
        _slip("16 bytes always", "How many bytes a parameter takes is an argument here, `bytes_of`: not everybody counts 2, "
              "2 and 12.", bytes_of=lambda given: OF_ZERO),
        _slip("all micro-batches in flight", "That is GPipe. Under 1F1B a stage holds the micro-batches that are further "
              "on: one for each stage from itself to the last, at most.",
              in_flight=lambda given, stage: given["layout"]["n_micro"]),
        _slip("more in flight than there are", "There are only n_micro micro-batches: where they are fewer than the stages "
              "ahead, no more can be in flight.", in_flight=lambda given, stage: given["layout"]["pp"] - stage),
        _slip("stages alike", "No device holds all that: under 1F1B each stage nearer to the end has a micro-batch fewer in "
              "flight, and only the last has logits. Add up each stage, and return the parts of the one that holds most, "
              "not the largest of each part.", in_flight=lambda given, stage: in_flight(given, 0)),
        _slip("one in flight", "Only the last stage has one micro-batch in flight. The first forwards as many as there are "
              "stages before the first gradient comes back.", in_flight=lambda given, stage: 1),
        _slip("all activations cut", "Without sequence parallelism 10 of the 34 are whole on every rank of a tensor group, "
              "and the input that full recomputation keeps.", kept=_as_if(kept, sequence_parallel=True)),
        _slip("nothing cut along the sequence", "With sequence parallelism nothing is whole any more: 34/t, and full "
              "recomputation keeps a piece of the input.", kept=_as_if(kept, sequence_parallel=False)),
        _slip("recompute ignored", "`recompute` is not looked at: selective drops the 5as/h, full keeps the input only.",
              kept=_as_if(kept, recompute="none")),
        _slip("a batch of one", "A micro-batch has `micro_batch` sequences: activations and logits count each.",
              kept=_as_if(kept, micro_batch=1), logits=_as_if(logits, micro_batch=1)),
        _slip("always the first stage", "The fullest device need not be on the first stage: a large vocabulary makes the "
              "last one fuller, with its logits. Compare the stages.", stages=lambda given: (0,)),
        _slip("logits forgotten", "The last stage holds logits, a number for each position and word of the vocabulary.",
              logits=lambda given, stage: Fraction(0)),
        _slip("logits of one sequence", "A micro-batch may have several sequences, and the logits are those of all: times "
              "micro_batch, as activations are.", logits=_as_if(logits, micro_batch=1)),
        _slip("logits of 2 bytes", "The logits take 4 bytes each: the loss is computed in float32.",
              logits=lambda given, stage: logits(given, stage) / 2),
        _slip("logits not cut", "Each rank of a tensor group has the logits of its part of the vocabulary.",
              logits=_as_if(logits, tp=1)),
        _slip("emptiest stage", "That is the device that holds least.", fullest=min),
    ),
)
