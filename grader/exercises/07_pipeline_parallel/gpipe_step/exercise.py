"""GPipe's training step: every micro-batch forward, then every one backward, gradients summed on each stage."""

from collections.abc import Sequence

from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.one_process import TOLERANCE
from grader.exercises.shared.pipeline_inputs import pipeline_cases
from grader.exercises.shared.pipeline_steps import GRADIENT_SLIPS, STEP_PARAMETERS, mixed_up, plain_step
from grader.judging.exercise import TECHNIQUE, VALUES, Case, Draw, Exercise


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(1, 2, 2, "float64"), (2, 3, 3, "float64"), (3, 4, 1, "float32"), (4, 5, 2, "bfloat16"), (4, 2, 3, "float64")]
    many = draw.integer(5, 7)  # drawn in any case: what follows is drawn from the same numbers
    if grading:
        sizes += [(5, 3, 2, "float64"), (2, many, 1, "float64"), (3, 1, 4, "float64")]
    return pipeline_cases(draw, sizes)


def _reversed_before_the_last(p: int, stage: int, m: int, k: int) -> int:
    """The last stage goes backward from the first micro-batch to the last, the others the reverse."""
    return k if stage == p - 1 else m - 1 - k


EXERCISE = Exercise(
    title="All forward, then all backward",
    parameters=STEP_PARAMETERS,
    make_cases=_cases,
    oracle=each_rank(plain_step),
    tolerance=TOLERANCE,
    points={VALUES: 4, TECHNIQUE: 4},
    slips=(
        mixed_up("micro-batches mixed up", "A gradient met the activations of another micro-batch: every stage must go "
                                           "backward through the micro-batches in the same order.",
                 _reversed_before_the_last),
        *GRADIENT_SLIPS,
    ),
)
