"""What one rank of a mesh has of a whole model."""

from collections.abc import Sequence

from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.formula_cases import single
from grader.exercises.shared.meshes import in_words, sizes_of
from grader.exercises.shared.model_states import State, drawn_state, of_rank
from grader.judging.exercise import VALUES, Case, Draw, Exercise


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    wanted = [((1, 1, 4), 2, (0, 3)), ((1, 3, 1), 5, (0, 1, 2)), ((1, 2, 2), 3, (1,)), ((2, 2, 2), 3, (3, 6)),
              ((1, 1, 1), 1, (0,))]
    wanted += [((3, 2, 1), 4, (2, 3)), ((1, 2, 4), 4, (1, 6))] * grading
    cases = []
    for shape, n_layers, ranks in wanted:
        sizes, whole = sizes_of(shape), drawn_state(draw, n_layers)
        name = f"{in_words(sizes)}, {n_layers} layer{'s' * (n_layers > 1)}, rank "
        cases += [single(f"{name}{rank}", whole=whole, sizes=sizes, n_layers=n_layers, rank=rank) for rank in ranks]
    return cases


def _right(case: Case, rank: int) -> State:
    inputs = case.inputs[rank]
    return of_rank(inputs["whole"], inputs["n_layers"], inputs["sizes"], inputs["rank"])


EXERCISE = Exercise(
    title="Cut the model",
    parameters=("whole", "sizes", "n_layers", "rank"),
    make_cases=_cases,
    oracle=each_rank(_right),
    points={VALUES: 2},
)
