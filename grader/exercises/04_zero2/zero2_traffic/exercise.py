"""What a rank sends in a step of k micro-batches: data parallelism, ZeRO-1 and ZeRO-2."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grader.exercises.shared.cases import each_rank, ranks
from grader.judging.compare import same
from grader.judging.demands import only_calls
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import wrong_ranks


def _right(n_parameters: int, n_ranks: int, n_micro: int) -> float:
    return (n_micro + 1) * (n_ranks - 1) / n_ranks * 2 * n_parameters


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    found = []
    for n, micro in ((1, 1), (4, 1), (4, draw.integer(4, 7)), (64, 8)):
        inputs = {"n_parameters": draw.integer(1, 9) * 10**6, "n_ranks": n, "n_micro": micro}
        found.append(Case(f"{ranks(n)}, {micro} micro-batch{'es' * (micro > 1)}", (inputs,)))
    return found


# Wrong rules: what is sent, as a multiple of what is right, for n ranks and k micro-batches.
RULES: dict[str, Callable[[int, int], float]] = {
    "accumulation free": lambda n, k: 2 / (k + 1),
    "parameters every time": lambda n, k: 2 * k / (k + 1),
    "parameters forgotten": lambda n, k: k / (k + 1),
    "float32": lambda n, k: 2.0,
    "numbers": lambda n, k: 0.5,
    "own share sent": lambda n, k: n / (n - 1),
}


def _by(name: str) -> Callable[[Look], bool]:
    """What is found is what this rule gives, in a case where no other gives the same."""

    def test(look: Look, rank: int, found: float, expected: float) -> bool:
        n, k = look.case.inputs[rank]["n_ranks"], look.case.inputs[rank]["n_micro"]
        return n > 1 and [rule for rule in RULES if same(found, expected * RULES[rule](n, k))] == [name]

    return wrong_ranks(test)


EXERCISE = Exercise(
    title="What accumulation costs",
    parameters=("n_parameters", "n_ranks", "n_micro"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: _right(**case.inputs[r])),
    tolerance=1e-9,
    points={VALUES: 2},
    technique=Technique(
        demands=(only_calls(id="communicates", hint="This is arithmetic: no message is needed."),),
        symptoms=(
        Symptom("accumulation free", "That is the traffic of one micro-batch: ZeRO-2 has nowhere to keep a whole gradient, "
                                     "so it reduce-scatters after every backward pass.", _by("accumulation free")),
        Symptom("parameters every time", "Parameters change once a step, so they are gathered once; only the gradients "
                                         "travel after every backward pass.", _by("parameters every time")),
        Symptom("parameters forgotten", "After the update the parameters are gathered: one more pass of Ψ.",
                _by("parameters forgotten")),
        Symptom("float32", "In mixed precision gradients and parameters travel with 2 bytes each, not 4.", _by("float32")),
        Symptom("numbers", "So many numbers are sent; wanted are bytes, and each number has 2.", _by("numbers")),
        Symptom("own share sent", "A rank does not send itself its own share: (n−1)/n.", _by("own share sent")),
    ),
    ),
)
