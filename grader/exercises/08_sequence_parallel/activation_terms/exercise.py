"""What each part of a transformer block keeps for its backward pass, in bytes."""

from collections.abc import Iterable, Sequence

from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.formula_cases import FORMULAS
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip

MASKS = ("attention.dropout", "attention_dropout", "mlp_dropout")
NUMBERS = ("attention_norm", "qkv", "attention.scores", "attention.softmax", "attention.mix", "out", "mlp_norm", "up",
           "gelu", "down")
OF_EACH_HEAD = ("attention.softmax", "attention.dropout", "attention.mix")


def terms(s: int, b: int, h: int, a: int) -> dict[str, float]:
    """Korthikanti et al., section 4.1."""
    x, weights = float(s * b * h), float(a * s * s * b)
    return {
        "attention_norm": 2 * x, "qkv": 2 * x,
        "attention.scores": 6 * x, "attention.softmax": 2 * weights, "attention.dropout": weights,
        "attention.mix": 2 * weights, "out": 2 * x, "attention_dropout": x,
        "mlp_norm": 2 * x, "up": 2 * x, "gelu": 8 * x, "down": 8 * x, "mlp_dropout": x,
    }


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(2048, 4, 6144, 64), (2048, 1, 12288, 96), (7, 3, 10, 5),
             (draw.integer(2, 99), draw.integer(2, 9), 12 * draw.integer(1, 9), 6)]
    return [Case(f"s={s}, b={b}, h={h}, a={a}", ({"s": s, "b": b, "h": h, "a": a},)) for s, b, h, a in sizes]


def _times(id: str, parts: Iterable[str], factor: float, hint: str) -> Slip:
    """Some parts are counted `factor` times."""
    return Slip(id, hint, lambda case, rank, right: right[rank] | {part: right[rank][part] * factor for part in parts})


EXERCISE = Exercise(
    title="What a block keeps, part by part",
    forbidden=FORMULAS,
    parameters=("s", "b", "h", "a"),
    make_cases=_cases,
    oracle=each_rank(lambda case, rank: terms(**case.inputs[rank])),
    tolerance=1e-9,
    points={VALUES: 2},
    slips=(
        _times("numbers for bytes", NUMBERS, 1 / 2,
               "These are numbers, not bytes: in 16-bit formats each takes 2 bytes, and a mask 1."),
        *(_times("float32", parts, 2, "Two bytes an element: the count is for 16-bit formats.")
          for parts in (NUMBERS, NUMBERS + MASKS)),
        *(_times("wide mask", masks, 2, "A dropout keeps its mask only: yes or no for each number, in 1 byte.")
          for masks in (MASKS, MASKS[:1], MASKS[1:])),
        _times("dropout keeps its input", MASKS, 3,
               "A dropout's backward needs the mask alone, 1 byte a number, not its input too."),
        *(_times("width forgotten", parts, 1 / 4,
                 "Between `up` and `down` rows are four times as wide: what gelu and down keep is 8 sbh each.")
          for parts in (("gelu", "down"), ("gelu",), ("down",))),
        *(_times("causal halving", parts, 1 / 2, "The causal mask saves nothing here: all s² scores of a head are written "
                 "down, and so are their weights, masked or not.") for parts in (OF_EACH_HEAD, OF_EACH_HEAD[:1])),
        _times("dropped weights forgotten", ("attention.mix",), 0,
               "weights·v needs, for the gradient of v, the weights as they were after dropout: another 2as²b."),
        _times("one of three", ("attention.scores",), 1 / 3,
               "The gradient of q·kᵀ needs q and k, that of weights·v needs v: all three are kept, 2 sbh each."),
        _times("norms forgotten", ("attention_norm", "mlp_norm"), 0, "A LayerNorm keeps its input for its backward pass."),
        Slip("one head", "Each of the a heads has scores of its own: s² numbers for each head and sequence.",
             lambda case, rank, right: right[rank] | {
                 part: right[rank][part] / case.inputs[rank]["a"] for part in OF_EACH_HEAD}),
        Slip("v twice", "v is part of qkv's result, which the scores keep already: count it there, and for mix only the "
                        "weights after dropout.",
             lambda case, rank, right: right[rank] | {
                 "attention.mix": right[rank]["attention.mix"] + right[rank]["attention.scores"] / 3}),
    ),
)
