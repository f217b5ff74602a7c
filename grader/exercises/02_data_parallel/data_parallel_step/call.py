"""How a rank calls data_parallel_step."""

from grader.calling.training import make_optimizer, parameters
from grader.calling.zoo import build, loss_rows


def call(fn, inputs: dict, group) -> dict:
    """fn(model, loss_fn, x, y, batch_size, optimizer, group) a few times → losses, and the parameters at the end."""
    model = build(inputs["model"], inputs["seed"])
    optimizer = make_optimizer(inputs, model.parameters())
    losses = [fn(model, loss_rows, x, y, inputs["batch_size"], optimizer, group)
              for x, y in zip(inputs["xs"], inputs["ys"], strict=True)]
    return {"losses": losses, "parameters": parameters(model)}
