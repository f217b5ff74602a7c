"""How a rank calls Zero2."""

from collections.abc import Callable
from typing import Any

from torch.optim.lr_scheduler import StepLR

from grader.calling.training import OPTIMIZERS, Held, parameters, watch_gradients
from grader.calling.zoo import build, loss_rows
from utils.trace.spans import span


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """trainer = fn(module, optimizer class, group, lr=…); steps of `micro` backward passes each → the parameters."""
    model = build(inputs["model"], inputs["seed"])
    watch_gradients(model)
    trainer = fn(model, OPTIMIZERS[inputs["optimizer"]], group, lr=inputs["lr"], **inputs["options"])
    scheduler = StepLR(trainer.optimizer, 1, gamma=inputs["gamma"])
    for number, (x, y) in enumerate(zip(inputs["xs"], inputs["ys"], strict=True), 1):
        with span("backward"):
            (loss_rows(model(x), y).mean() / inputs["micro"]).backward()
        if number % inputs["micro"] == 0:
            trainer.step()
            trainer.zero_grad()
            scheduler.step()
    return Held(parameters(model), model, trainer)
