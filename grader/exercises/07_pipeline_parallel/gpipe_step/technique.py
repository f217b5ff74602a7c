"""How gpipe_step must be done, and how it can fail."""

from grader.exercises.technique.pipelines import order, step_technique

TECHNIQUE = step_technique(
    passes=(
        order(lambda p, r, m: "F" * m + "B" * m, "not all forward first", "n_micro forward passes, then n_micro backward",
              "The gradients are right, but the passes come in another order than GPipe's: first every micro-batch forward, "
              "each by itself, then every one backward."),
    ),
    crossing="Two stages send to each other and neither receives: in GPipe all forward messages come before all backward "
             "ones, on every stage.",
)
