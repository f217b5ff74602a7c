"""1F1B's training step: as soon as a gradient can come, one forward and one backward in turn; few activations stand."""

from collections.abc import Sequence

from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.one_process import TOLERANCE
from grader.exercises.shared.pipeline_inputs import pipeline_cases
from grader.exercises.shared.pipeline_steps import GRADIENT_SLIPS, STEP_PARAMETERS, mixed_up, plain_step
from grader.judging.exercise import TECHNIQUE, VALUES, Case, Draw, Exercise

from .technique import wanted_order


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    """More micro-batches than stages, as many, and fewer."""
    sizes = [(1, 2, 2, "float64"), (2, 3, 3, "float64"), (3, 5, 1, "float32"), (4, 6, 2, "bfloat16"), (4, 2, 1, "float64")]
    many = draw.integer(5, 7)  # drawn in any case: what follows is drawn from the same numbers
    if grading:
        sizes += [(5, 7, 2, "float64"), (2, many, 1, "float64"), (3, 1, 4, "float64")]
    return pipeline_cases(draw, sizes)


def _newest(p: int, stage: int, m: int, k: int) -> int:
    """The newest micro-batch that is kept, not the oldest, meets the k-th gradient."""
    kept, forward, met = [], 0, []
    for kind in wanted_order(p, stage, m):
        if kind == "F":
            kept.append(forward)
            forward += 1
        else:
            met.append(kept.pop())
    return met[k]


EXERCISE = Exercise(
    title="One forward, one backward",
    parameters=STEP_PARAMETERS,
    make_cases=_cases,
    oracle=each_rank(plain_step),
    tolerance=TOLERANCE,
    points={VALUES: 4, TECHNIQUE: 4},
    slips=(
        mixed_up("stale activations", "A gradient met the newest activations that are kept, not its own: gradients come in "
                                      "the order of the forward passes, so take the oldest (first in, first out).", _newest),
        *GRADIENT_SLIPS,
    ),
)
