"""What a rank sends for one transformer layer and step under tensor parallelism: four all-reduces of the activations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grader.exercises.shared.cases import each_rank, ranks
from grader.judging.compare import same
from grader.judging.demands import only_calls
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import wrong_ranks


def sent(batch: int, length: int, dim: int, n_ranks: int, *, times: float = 4,
         share: Callable[[int], float] = lambda n: 2 * (n - 1) / n, power: int = 1) -> float:
    """Bytes. The keywords are ways to be wrong: so many all-reduces, each sending such a share, of dim**power."""
    return float(times * share(n_ranks) * 2 * batch * length * dim**power)


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(1, 2048, 12288, 8), (draw.integer(2, 9), 1000, 768, 6), (4, draw.integer(100, 900), 640, 3), (1, 512, 96, 1)]
    return [Case(f"{b}×{t}×{d}, {ranks(n)}", ({"batch": b, "length": t, "dim": d, "n_ranks": n},)) for b, t, d, n in sizes]


def _as(**other) -> Callable[[Look], bool]:
    return wrong_ranks(lambda look, r, found, _: same(found, sent(**look.case.inputs[r], **other)))


EXERCISE = Exercise(
    title="Bytes of a layer",
    parameters=("batch", "length", "dim", "n_ranks"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: sent(**case.inputs[r])),
    tolerance=1e-6,
    points={VALUES: 2},
    technique=Technique(
        demands=(only_calls(id="communicates", hint="This is arithmetic: no message is needed."),),
        symptoms=(
        Symptom("half", "Half of it: there are four all-reduces, an f and a g each of attention and MLP, each sends "
                        "2(n−1)/n of its array, and each number has 2 bytes. Which of these is missing?",
                _as(times=2)),
        Symptom("quarter", "A quarter of it: there are four all-reduces, one forward and one backward for attention and for "
                           "the MLP, and each sends 2(n−1)/n of its array.", _as(times=1)),
        Symptom("twice", "Twice too much: one all-reduce a *pair* of linears in each direction, as nothing is sent between "
                         "column and row; and 2 bytes a number.", _as(times=8)),
        Symptom("own share sent", "A rank does not send its own share to itself: 2(n−1)/n, and nothing for one rank.",
                _as(share=lambda n: 2)),
        Symptom("array once", "By the ring formula an all-reduce sends 2(n−1)/n of its array's bytes, not the array once.",
                _as(share=lambda n: 1)),
        Symptom("array divided", "The activations that are summed are whole on every rank: their size does not fall with n.",
                _as(share=lambda n: 2 * (n - 1) / n / n)),
        Symptom("weights sent", "No weight is sent: it is the activations, batch × length × dim, that are summed.",
                _as(power=2)),
    ),
    ),
)
