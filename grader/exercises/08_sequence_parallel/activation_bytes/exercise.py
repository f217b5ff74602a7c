"""Activation bytes of a block on one rank: 34 and 5as/h, divided by t or not, computed again or not."""

from collections.abc import Callable, Sequence
from typing import Any

from grader.exercises.shared.activations import kept
from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.formula_cases import FORMULAS
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip

Inputs = dict[str, Any]


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(2048, 4, 6144, 64, 8), (2048, 1, 12288, 96, 8), (draw.integer(3, 99), 3, 60, 6, 1), (100, 2, 36, 6, 3)]
    ways = [(parallel, how) for how in ("none", "selective", "full") for parallel in (False, True)]
    return [Case(f"s={s}, b={b}, h={h}, a={a}, t={t}, {'' if parallel else 'no '}sequence parallel, recompute {how}", ({
        "s": s, "b": b, "h": h, "a": a, "t": t, "sequence_parallel": parallel, "recompute": how},))
        for s, b, h, a, t in sizes for parallel, how in ways]


def _where(shows: Callable[[Inputs], bool], id: str, hint: str, wrong: Callable[[Inputs], float]) -> Slip:
    """In cases whose inputs are as shows(inputs) says, the result is wrong(inputs)."""
    return Slip(id, hint, lambda case, rank, right: wrong(case.inputs[rank]), lambda case: shows(case.inputs[0]))


def _kept_if(**others: Any) -> Callable[[Inputs], float]:
    """As if some inputs were others."""
    return lambda inputs: kept(**inputs | others)


def _is_in_pieces(inputs: Inputs) -> bool:
    return inputs["sequence_parallel"]


def _is_not_in_pieces(inputs: Inputs) -> bool:
    return not inputs["sequence_parallel"]


def _is_whole(inputs: Inputs) -> bool:
    return not inputs["sequence_parallel"] and inputs["recompute"] != "full"


def _is_selective(inputs: Inputs) -> bool:
    return inputs["recompute"] == "selective"


def _is_full(inputs: Inputs) -> bool:
    return inputs["recompute"] == "full"


def _linear_inputs_divided(inputs: Inputs) -> float:
    x = inputs["s"] * inputs["b"] * inputs["h"]
    return kept(**inputs) - 4 * x + 4 * x / inputs["t"]


def _core_not_divided(inputs: Inputs) -> float:
    core = 5 * inputs["a"] * inputs["s"] ** 2 * inputs["b"]
    return kept(**inputs) - core / inputs["t"] + core


def _more(bytes_of: Callable[[Inputs], float]) -> Callable[[Inputs], float]:
    """So many bytes for each of the sbh too many."""
    return lambda inputs: kept(**inputs) + inputs["s"] * inputs["b"] * inputs["h"] * bytes_of(inputs)


def _rounded(inputs: Inputs) -> float:
    """What t divides is divided by //."""
    t, whole = inputs["t"], 0 if inputs["sequence_parallel"] else 10
    return inputs["s"] * inputs["b"] * inputs["h"] * ((34 - whole) // t - (34 - whole) / t) + kept(**inputs)


def _core_rounded(inputs: Inputs) -> float:
    core, divisor = 5 * inputs["a"] * inputs["s"], inputs["h"] * inputs["t"]
    return _more(lambda _: core // divisor - core / divisor)(inputs)


_ROUNDED = "A fraction is lost: `//` rounds down. 34 is not a multiple of every t, nor 5as of h: divide with `/`."

EXERCISE = Exercise(
    title="The table of activations",
    forbidden=FORMULAS,
    parameters=("s", "b", "h", "a", "t", "sequence_parallel", "recompute"),
    make_cases=_cases,
    oracle=each_rank(lambda case, rank: kept(**case.inputs[rank])),
    tolerance=1e-9,
    points={VALUES: 2},
    slips=(
        _where(lambda inputs: _is_full(inputs) and _is_not_in_pieces(inputs), "full divided",
               "Without sequence parallelism every rank has the block's whole input, and full recomputation keeps it as it "
               "is: 2 sbh, which t does not divide.", lambda inputs: kept(**inputs) / inputs["t"]),
        _where(lambda inputs: _is_full(inputs) and _is_in_pieces(inputs), "piece counted whole",
               "With sequence parallelism the block's input is this rank's shard, and full recomputation keeps just that: "
               "2 sbh/t. The 2 sbh of the paper's table 2 are a whole input's.", _kept_if(sequence_parallel=False)),
        _where(_is_not_in_pieces, "all divided",
               "Without sequence parallelism both LayerNorms' inputs, the inputs of qkv and up, and the two masks after out "
               "and down stay whole: 10 sbh that t does not divide.", _kept_if(sequence_parallel=True)),
        _where(_is_whole, "linear inputs divided",
               "The inputs of qkv and up are whole under tensor parallelism: it cuts their outputs. With norms and masks: "
               "4 + 4 + 2 = 10.", _linear_inputs_divided),
        _where(_is_in_pieces, "nothing divided more",
               "With sequence parallelism what was whole is cut into shards: the 10 sbh are divided as well, 34/t.",
               _kept_if(sequence_parallel=False)),
        _where(lambda inputs: inputs["recompute"] == "none", "core not divided",
               "The heads are divided over the ranks, and their scores with them: 5as/(ht).", _core_not_divided),
        _where(_is_full, "full keeps nothing", "To compute a block again its input is needed: 2 bytes an element.",
               lambda inputs: 0.0),
        _where(_is_full, "input of one byte", "The block's input takes 2 bytes an element: 2 sbh where it is whole.",
               lambda inputs: kept(**inputs) / 2),
        _where(_is_selective, "mask of the core kept", "All of the core is computed again, its dropout's mask as well: "
               "nothing of 5as/h is left.", _more(lambda inputs: inputs["a"] * inputs["s"] / inputs["h"] / inputs["t"])),
        _where(_is_selective, "less than the core again", "Selective recomputation drops the 5as/h only. q, k and v stay, "
               "6 sbh, divided as before: they are what the core is computed again from.",
               _more(lambda inputs: -6 / inputs["t"])),
        _where(_is_whole, "masks divided", "The two masks after out and down are whole on every rank without sequence "
               "parallelism, and so is all else outside the cut weights: 4 + 4 + 2 = 10.",
               _more(lambda inputs: 2 / inputs["t"] - 2)),
        _where(lambda inputs: not _is_full(inputs), "rounded down", _ROUNDED, _rounded),
        _where(lambda inputs: inputs["recompute"] == "none", "rounded down", _ROUNDED, _core_rounded),
        _where(_is_selective, "core kept",
               "Selective recomputation drops what the core of attention keeps: the term 5as/h goes.",
               _kept_if(recompute="none")),
    ),
)
