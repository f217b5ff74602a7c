"""How a rank calls data_parallel_step."""

from grader.calling.splitting import WORK
from grader.calling.training import leave_gradients, make_optimizer, not_held, parameters
from grader.calling.zoo import build, loss_rows
from utils.costs.flops import FlopCounter
from utils.trace.spans import mark


def call(fn, inputs: dict, group) -> dict:
    """fn(model, loss_fn, x, y, batch_size, optimizer, group) a few times → losses, whether they are detached; in the end,
    the parameters and the gradients of those that the optimizer does not hold. It has two groups of parameters, or holds the
    matrices only; some gradients may be left from before."""
    model = build(inputs["model"], inputs["seed"])
    leave_gradients(model, inputs.get("stale"))
    optimizer = make_optimizer(inputs, [p for p in model.parameters() if p.ndim > 1])
    if not inputs["matrices only"]:
        optimizer.add_param_group({"params": [p for p in model.parameters() if p.ndim < 2]})
    losses = []
    for x, y in zip(inputs["xs"], inputs["ys"], strict=True):
        with FlopCounter() as counter:
            losses.append(fn(model, loss_rows, x, y, inputs["batch_size"], optimizer, group))
        mark(WORK, count=counter.total)
    detached = not any(getattr(loss, "requires_grad", False) for loss in losses)
    return {"losses": losses, "detached": detached, "parameters": parameters(model), "others": not_held(model, optimizer)}
