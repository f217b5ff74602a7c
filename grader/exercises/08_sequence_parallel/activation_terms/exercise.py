"""What each part of a transformer block keeps for its backward pass, in bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from grader.exercises.shared.cases import each_rank
from grader.judging.compare import same
from grader.judging.demands import only_calls
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import every_rank, wrong_ranks

ATTENTION = ("attention.scores", "attention.softmax", "attention.dropout", "attention.mix")


def terms(s: int, b: int, h: int, a: int, *, number: int = 2, mask: int = 1, width: int = 4, mix: bool = True,
          qkv: int = 3, norms: bool = True) -> dict[str, float]:
    """Korthikanti et al., section 4.1. Wrong ways: another size of a number or a mask, an MLP of other width, the dropped
    weights forgotten, fewer of q, k and v, the LayerNorms forgotten."""
    x, weights = float(s * b * h), float(a * s * s * b)
    return {
        "attention_norm": number * x * norms, "qkv": number * x,
        "attention.scores": qkv * number * x, "attention.softmax": number * weights, "attention.dropout": mask * weights,
        "attention.mix": number * weights * mix, "out": number * x, "attention_dropout": mask * x,
        "mlp_norm": number * x * norms, "up": number * x, "gelu": width * number * x, "down": width * number * x,
        "mlp_dropout": mask * x,
    }


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(2048, 4, 6144, 64), (2048, 1, 12288, 96), (7, 3, 10, 5),
             (draw.integer(2, 99), draw.integer(2, 9), 12 * draw.integer(1, 9), 6)]
    return [Case(f"s={s}, b={b}, h={h}, a={a}", ({"s": s, "b": b, "h": h, "a": a},)) for s, b, h, a in sizes]


def _as(**other) -> Callable[[Look], bool]:
    return wrong_ranks(lambda look, r, found, _: same(found, terms(**look.case.inputs[r], **other)))


def _squared_wrongly(look: Look, rank: int, found, expected) -> bool:
    """Every attention term of s² is as the expected one without the factor a."""
    heads = look.case.inputs[rank]["a"]
    return all(same(found[part], expected[part] / heads) for part in ATTENTION[1:])


def _wide_masks(look: Look, rank: int, found: Any, expected: Any) -> bool:
    """What is wrong are masks, some or all of them, of twice their size."""
    wrong = {part for part in expected if found[part] != expected[part]}
    return all("dropout" in part and found[part] == 2 * expected[part] for part in wrong)


def _is_dictionary(look: Look, rank: int, found: Any, expected: Any) -> bool:
    return isinstance(found, dict) and found.keys() == expected.keys()


EXERCISE = Exercise(
    title="What a block keeps, part by part",
    parameters=("s", "b", "h", "a"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: terms(**case.inputs[r])),
    tolerance=1e-9,
    points={VALUES: 2},
    technique=Technique(
        demands=(only_calls(id="communicates", hint="This is arithmetic: no message is needed."),),
        symptoms=(
        Symptom("numbers for bytes", "These are numbers, not bytes: in 16-bit formats each takes 2 bytes, and a mask 1.",
                _as(number=1)),
        Symptom("float32", "Two bytes a number: the count is for 16-bit formats.", _as(number=4)),
        Symptom("wide mask", "A dropout keeps its mask only: yes or no for each number, in 1 byte.",
                wrong_ranks(_wide_masks)),
        Symptom("dropout keeps its input", "A dropout's backward needs the mask alone, 1 byte a number, not its input too.",
                _as(mask=3)),
        Symptom("width forgotten", "Between `up` and `down` rows are four times as wide: what gelu and down keep is 8sbh "
                                   "each.", _as(width=1)),
        Symptom("dropped weights forgotten", "weights·v needs, for the gradient of v, the weights as they were after "
                                             "dropout: another 2as²b.", _as(mix=False)),
        Symptom("one of three", "The gradient of q·kᵀ needs q and k, that of weights·v needs v: all three are kept, 2sbh "
                                "each.", _as(qkv=1)),
        Symptom("norms forgotten", "A LayerNorm keeps its input for its backward pass.", _as(norms=False)),
        Symptom("one head", "Each of the a heads has scores of its own: s² numbers for each head and sequence.",
                wrong_ranks(_squared_wrongly)),
        Symptom("another part", "Look at the part that is shown first: which tensors does its backward pass need that no "
                                "part before it keeps, of how many numbers, in how many bytes each?",
                every_rank(_is_dictionary)),
    ),
    ),
)
