"""1F1B's training step: as soon as a gradient can come, one forward and one backward in turn; few activations stand."""

from grader.exercises.shared.pipelines import pipeline_cases, step_exercise

EXERCISE = step_exercise(
    "One forward, one backward",
    pipeline_cases(  # more micro-batches than stages, as many, and fewer
        [(1, 2, 2, "float64"), (2, 3, 3, "float64"), (3, 5, 1, "float32"), (4, 6, 2, "bfloat16"), (4, 2, 1, "float64")],
        for_grading=lambda many: [(5, 7, 2, "float64"), (2, many, 1, "float64"), (3, 1, 4, "float64")]),
)
