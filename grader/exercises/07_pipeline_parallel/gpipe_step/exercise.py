"""GPipe's training step: every micro-batch forward, then every one backward, gradients summed on each stage."""

from grader.exercises.shared.pipelines import pipeline_cases, step_exercise

EXERCISE = step_exercise(
    "All forward, then all backward",
    pipeline_cases(
        [(1, 2, 2, "float64"), (2, 3, 3, "float64"), (3, 4, 1, "float32"), (4, 5, 2, "bfloat16"), (4, 2, 3, "float64")],
        for_grading=lambda many: [(5, 3, 2, "float64"), (2, many, 1, "float64"), (3, 1, 4, "float64")]),
)
