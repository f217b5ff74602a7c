"""What a rank sends in a step of some micro-batches, without ZeRO and at its three stages."""

from collections.abc import Callable, Sequence

from grader.exercises.shared.cases import each_rank, ranks
from grader.exercises.shared.formula_cases import FORMULAS, single
from grader.judging.exercise import VALUES, Case, Draw, Exercise

# One collective over all parameters or gradients sends (n−1)/n of them: how many in a step of k micro-batches?
COLLECTIVES: dict[int, Callable[[int], int]] = {0: lambda k: 2, 1: lambda k: 2, 2: lambda k: k + 1, 3: lambda k: 3 * k}


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    """Sizes that the number of ranks does not divide."""
    sizes = [(7_500_000_000, 64, 1), (draw.integer(1, 9) * 1000 + 1, 6, draw.integer(4, 8)), (draw.integer(1, 99), 1, 2)]
    return [single(f"stage {stage}, {size:,} parameters, {ranks(n)}, {k} micro-batch{'es' * (k > 1)}",
                   stage=stage, n_parameters=size, n_ranks=n, n_micro=k)
            for size, n, k in sizes for stage in range(4)]


def _sent(case: Case, rank: int) -> float:
    stage, size, n, k = (case.inputs[rank][name] for name in ("stage", "n_parameters", "n_ranks", "n_micro"))
    return COLLECTIVES[stage](k) * (n - 1) / n * 2.0 * size


EXERCISE = Exercise(
    title="What a step sends at each stage",
    forbidden=FORMULAS,
    parameters=("stage", "n_parameters", "n_ranks", "n_micro"),
    make_cases=_cases,
    oracle=each_rank(_sent),
    tolerance=1e-9,
    points={VALUES: 2},
)
