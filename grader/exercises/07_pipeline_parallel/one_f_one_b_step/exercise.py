"""1F1B's training step: as soon as a gradient can come, one forward and one backward in turn; few activations stand."""

from grader.exercises.shared.pipelines import pipeline_cases, step_exercise

from .technique import wanted_order


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


EXERCISE = step_exercise(
    "One forward, one backward",
    pipeline_cases(  # more micro-batches than stages, as many, and fewer
        [(1, 2, 2, "float64"), (2, 3, 3, "float64"), (3, 5, 1, "float32"), (4, 6, 2, "bfloat16"), (4, 2, 1, "float64")],
        for_grading=lambda many: [(5, 7, 2, "float64"), (2, many, 1, "float64"), (3, 1, 4, "float64")]),
    ("stale activations", "A gradient met the newest activations that are kept, not its own: gradients come in the order of "
                          "the forward passes, so take the oldest (first in, first out).", _newest),
)
