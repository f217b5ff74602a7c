"""What the same layers send under tensor parallelism and in a pipeline: all-reduces in each layer, one array each way."""

from collections.abc import Sequence

from grader.exercises.shared.cases import ranks
from grader.exercises.shared.formula_cases import FORMULAS, single
from grader.judging.exercise import VALUES, Case, Draw, Exercise
from utils.costs.formulas import bytes_sent_per_rank


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(1, 2048, 12288, 96, 8), (4, draw.integer(100, 900), 640, 9, 3), (1, 3, 5, 7, 7),  # no whole number of bytes
             (draw.integer(2, 9), 1000, 768, 12, 6), (8, 64, 64, 2, 2)]
    return [single(f"{b}×{t}×{d}, {layers} layers, {ranks(n)}", batch=b, length=t, dim=d, n_layers=layers, n_ranks=n)
            for b, t, d, layers, n in sizes]


def _oracle(case: Case) -> list[tuple[float, float]]:
    inputs = case.inputs[0]
    activations = 2.0 * inputs["batch"] * inputs["length"] * inputs["dim"]
    all_reduce = bytes_sent_per_rank("all_reduce", activations, inputs["n_ranks"])
    return [(4.0 * inputs["n_layers"] * all_reduce, 2.0 * activations)]  # there, and back


EXERCISE = Exercise(
    title="Bytes of tensor and of pipeline parallelism",
    forbidden=FORMULAS,
    parameters=("batch", "length", "dim", "n_layers", "n_ranks"),
    make_cases=_cases,
    oracle=_oracle,
    tolerance=1e-6,
    points={VALUES: 2},
)
