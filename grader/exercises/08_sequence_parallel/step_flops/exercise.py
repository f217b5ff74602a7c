"""FLOPs of a training step: those of the model, and those that the hardware does when it computes some of them again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grader.exercises.shared.cases import each_rank
from grader.judging.compare import same
from grader.judging.demands import only_calls
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import wrong_ranks

RECOMPUTE = ("none", "selective", "full")


def products(s: int, b: int, h: int) -> dict[str, tuple[int, int, int]]:
    """The matrix products of a layer's forward pass, each as (rows, inner size, columns), over all heads and samples."""
    return {"qkv": (b * s, h, 3 * h), "scores": (b * s, h, s), "values": (b * s, s, h), "out": (b * s, h, h),
            "up": (b * s, h, 4 * h), "down": (b * s, 4 * h, h)}


def counted(layers: int, s: int, b: int, h: int, vocabulary: int, recompute: str, *, passes: int = 3, an_add: int = 2,
            scores: float = 1.0, logits: int = 1, again: int = 1, logits_again: int = 0, selective_passes: int = 1) -> tuple:
    """(model, hardware), product by product. The last ones are ways to be wrong; their defaults are right."""
    forward = {name: an_add * rows * inner * columns * (scores if name in ("scores", "values") else 1.0)
               for name, (rows, inner, columns) in products(s, b, h).items()}
    head = logits * an_add * b * s * h * vocabulary
    core = forward["scores"] + forward["values"]
    rerun = {"none": 0.0, "selective": selective_passes * layers * core,
             "full": layers * sum(forward.values()) + logits_again * head}[recompute]
    model = passes * (layers * sum(forward.values()) + head)
    return float(model), float(model + again * rerun)


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(48, 2048, 4, 6144, 51200), (2, 5, 3, 8, 11)]
    sizes += [(draw.integer(3, 90), draw.integer(100, 3000), draw.integer(1, 9), 64 * draw.integer(2, 90),
               draw.integer(10**4, 10**5))]
    names = ("layers", "s", "b", "h", "vocabulary", "recompute")
    return [Case(f"{size[0]} layers, s {size[1]}, b {size[2]}, h {size[3]}, recompute {again}",
                 (dict(zip(names, (*size, again), strict=True)),)) for size in sizes for again in RECOMPUTE]


def _as(**wrong) -> Callable[[Look], bool]:
    return wrong_ranks(lambda look, rank, found, _: same(list(found), list(counted(**look.case.inputs[rank], **wrong))))


def _swapped(look: Look) -> bool:
    return wrong_ranks(lambda look, rank, found, expected: same(list(found), list(expected)[::-1]))(look)


EXERCISE = Exercise(
    title="FLOPs of the model, FLOPs of the hardware",
    parameters=("layers", "s", "b", "h", "vocabulary", "recompute"),
    make_cases=_cases,
    oracle=each_rank(lambda case, rank: counted(**case.inputs[rank])),
    tolerance=1e-9,
    points={VALUES: 2},
    technique=Technique(
        demands=(only_calls(id="communicates", hint="This is arithmetic: no message is needed."),),
        symptoms=(
        Symptom("forward only", "That is a forward pass: the backward pass costs two more of each product, one for the "
                                "input's gradient and one for the weight's (or the other factor's).", _as(passes=1)),
        Symptom("multiplications only", "Exactly half: a multiplication and an addition are two operations.", _as(an_add=1)),
        Symptom("logits forgotten", "The head is missing: 2bshV in forward, three times that in a step.", _as(logits=0)),
        Symptom("causal halving", "The attention is counted at half: the papers count all s² scores of a layer, masked or "
                                  "not, and MFU is compared on that count.", _as(scores=0.5)),
        Symptom("attention forgotten", "The products of attention itself are missing: QKᵀ and the weights times V, 2bs²h "
                                       "each in a layer's forward pass.", _as(scores=0.0)),
        Symptom("recompute forgotten", "The hardware runs more than the model needs: full recomputation adds a forward pass "
                                       "of the layers, selective one of QKᵀ and of the weights times V.", _as(again=0)),
        Symptom("recomputed twice", "What is computed again is counted twice: it is one more forward pass.", _as(again=2)),
        Symptom("logits again", "The head is not computed again: it is not part of a layer.", _as(logits_again=1)),
        Symptom("a whole step again", "Selective recomputation runs the attention core's *forward* again, 4bs²h a layer; "
                                      "what you have is its forward and backward, as in the paper's equation. The next cell "
                                      "shows both.", _as(selective_passes=3)),
        Symptom("model and hardware swapped", "The model's FLOPs come first, the hardware's second.", _swapped),
    ),
    ),
)
