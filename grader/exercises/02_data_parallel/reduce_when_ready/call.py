"""How a rank calls reduce_when_ready."""

import time

from grader.calling.training import gradients, leave_gradients, watch_gradients
from grader.calling.zoo import build, loss_rows
from utils.trace.spans import span


def call(fn, inputs: dict, group) -> list[dict]:
    """finish = fn(model, group), then some times backward and finish() → the gradients each time; in some
    passes they add to what is left from before. Marks when each gradient comes."""
    model = build(inputs["model"], inputs["seed"])
    watch_gradients(model)
    late_s, of_steps = inputs.get("late_s", 0.0), []
    finish = fn(model, group)
    for x, y, left in zip(inputs["xs"], inputs["ys"], inputs["left"], strict=True):
        leave_gradients(model, left)
        loss = loss_rows(model(x), y).mean()
        time.sleep(late_s if of_steps else 0.0)
        with span("backward"):
            loss.backward()
        finish()
        of_steps.append(gradients(model))
    return of_steps
