"""How a rank calls broadcast_model."""

from grader.calling.training import REPLACED
from grader.calling.zoo import build
from utils.trace.spans import mark


def call(fn, inputs: dict, group) -> dict:
    """fn(model, group) → the model's state afterwards; leaves a mark for a parameter that is no longer the same object."""
    model = build(inputs["model"], inputs["seed"])
    before = dict(model.named_parameters(remove_duplicate=False))
    fn(model, group)
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if parameter is not before[name]:
            mark(REPLACED, parameter=name)
    return dict(model.state_dict())
