"""Activation bytes of a layer on one rank: 34 and 5as/h, divided by t or not, computed again or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grader.exercises.shared.cases import each_rank
from grader.judging.compare import same
from grader.judging.demands import only_calls
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import wrong_ranks


def kept(s: int, b: int, h: int, a: int, t: int, sequence_parallel: bool, recompute: str, *, whole: int = 10,
         full: Callable[[int], float] = lambda t: 2, core_divided: bool = True, selective_whole: bool = False,
         linear: int = 34) -> float:
    """Korthikanti et al., table 2. Wrong ways: what tensor parallelism leaves whole, what full recomputation keeps, and
    others by name."""
    if recompute == "full":
        return float(s * b * h * full(t))
    left = 0 if sequence_parallel else whole
    core = 0 if recompute == "selective" and not selective_whole else 5 * a * s / h / (t if core_divided else 1)
    return s * b * h * (left + (linear - left) / t + core)


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(2048, 4, 6144, 64, 8), (2048, 1, 12288, 96, 8), (draw.integer(3, 99), 3, 60, 6, 1), (100, 2, 36, 6, 3)]
    ways = [(False, "none"), (True, "none"), (False, "selective"), (True, "selective"), (True, "full")]
    return [Case(f"s={s}, b={b}, h={h}, a={a}, t={t}, {'' if parallel else 'no '}sequence parallel, recompute {how}", ({
        "s": s, "b": b, "h": h, "a": a, "t": t, "sequence_parallel": parallel, "recompute": how},))
        for s, b, h, a, t in sizes for parallel, how in ways]


def _as(**other) -> Callable[[Look], bool]:
    return wrong_ranks(lambda look, r, found, _: same(found, kept(**look.case.inputs[r], **other)))


def _where(condition: Callable[[dict], bool], matches: Callable[[Look], bool]) -> Callable[[Look], bool]:
    return lambda look: condition(look.case.inputs[0]) and matches(look)


def _ignores_sequence_parallel(look: Look) -> bool:
    """As if it were off."""
    return look.case.inputs[0]["sequence_parallel"] and wrong_ranks(lambda look, r, found, _: same(
        found, kept(**{**look.case.inputs[r], "sequence_parallel": False})))(look)


EXERCISE = Exercise(
    title="The table of activations",
    parameters=("s", "b", "h", "a", "t", "sequence_parallel", "recompute"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: kept(**case.inputs[r])),
    tolerance=1e-9,
    points={VALUES: 2},
    technique=Technique(
        demands=(only_calls(id="communicates", hint="This is arithmetic: no message is needed."),),
        symptoms=(
        Symptom("all divided", "Without sequence parallelism both LayerNorms' inputs, the inputs of qkv and up, and the two "
                               "masks after out and down stay whole: 10sbh that t does not divide.",
                _where(lambda i: not i["sequence_parallel"] and i["t"] > 1, _as(whole=0))),
        Symptom("linear inputs divided", "The inputs of qkv and up are whole under tensor parallelism: it cuts their "
                                         "outputs. With norms and masks: 4 + 4 + 2 = 10.",
                _where(lambda i: not i["sequence_parallel"], _as(whole=6))),
        Symptom("nothing divided more", "With sequence parallelism the 10sbh are divided as well: 34/t.",
                _ignores_sequence_parallel),
        Symptom("core not divided", "The heads are divided over the ranks, and their scores with them: 5as/(ht).",
                _as(core_divided=False)),
        Symptom("full divided", "With full recomputation the layer's whole input is kept, 2sbh, on every rank: table 2 of "
                                "the paper does not cut it.", _as(full=lambda t: 2 / t)),
        Symptom("full keeps nothing", "To compute a layer again its input is needed: 2sbh.", _as(full=lambda t: 0)),
        Symptom("core kept", "Selective recomputation drops what the core of attention keeps: the term 5as/h goes.",
                _where(lambda i: i["recompute"] == "selective", _as(selective_whole=True))),
    ),
    ),
)
