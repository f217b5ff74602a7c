"""How gpipe_step must be done, and how it can fail."""

from grader.exercises.technique.pipelines import order, step_technique

TECHNIQUE = step_technique(
    passes=(
        order(lambda p, r, m: "F" * m + "B" * m, "not all forward first", "n_micro forward passes, then n_micro backward"),
    ),
)
