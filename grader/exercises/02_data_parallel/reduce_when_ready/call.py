"""How a rank calls reduce_when_ready."""

from grader.calling.training import gradients, leave_gradients, watch_gradients
from grader.calling.zoo import build, loss_rows
from utils.trace.spans import HELD_UP, pause, span


def call(fn, inputs: dict, group) -> list[dict]:
    """finish = fn(model, group), then some times backward and finish() → the gradients each time; in some
    passes they add to what is left from before. Marks when each gradient comes."""
    model = build(inputs["model"], inputs["seed"])
    watch_gradients(model)
    finish, of_steps = fn(model, group), []
    for x, y, left in zip(inputs["xs"], inputs["ys"], inputs["left"], strict=True):
        leave_gradients(model, left)
        loss = loss_rows(model(x), y).mean()
        if of_steps:
            pause(HELD_UP)
        with span("backward"):
            loss.backward()
        finish()
        of_steps.append(gradients(model))
    return of_steps
