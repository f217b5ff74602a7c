"""How one_f_one_b_step must be done, and how it can fail."""

from grader.exercises.technique.pipelines import in_flight_at_most, order, step_technique


def wanted_order(p: int, r: int, m: int) -> str:
    """Stage r of p: its warm-up, then one forward and one backward in turn, then the backward passes that are left."""
    warm_up = min(p - 1 - r, m)
    return "F" * warm_up + "FB" * (m - warm_up) + "B" * warm_up


TECHNIQUE = step_technique(
    passes=(
        in_flight_at_most(lambda p, r, m: min(p - r, m), "at most p − r micro-batches in flight on stage r",
                          "The gradients are right, but activations pile up: a stage starts a new micro-batch only when "
                          "it has done a backward pass for one, and backward frees that one's (no retain_graph)."),
        order(wanted_order, "another order", "warm-up of p − 1 − r, then forward and backward in turn",
              "The gradients are right, but the passes come in another order than 1F1B's: min(p − 1 − r, n_micro) forward "
              "passes first, then one forward and one backward in turn, then the backward passes that are left."),
    ),
    crossing="A stage sends an output to the next one, which at that moment sends a gradient back: each waits for the other "
             "to receive. Use isend, and wait for the Works later.",
)
