"""How a rank calls broadcast_model."""

import torch

from grader.calling.training import REPLACED, numbers
from grader.calling.zoo import build
from utils.trace.spans import mark


def call(fn, inputs: dict, group) -> dict:
    """fn(model, group) → parameters and buffers afterwards; leaves a mark of the parameters that were replaced.

    again: it is called once more, after the model has got its rank's own numbers back.
    """
    model = build(inputs["model"], inputs["seed"])
    before = dict(model.named_parameters(remove_duplicate=False))
    fn(model, group)
    if inputs["again"]:
        with torch.no_grad():
            own = numbers(build(inputs["model"], inputs["seed"]))
            for name, tensor in numbers(model).items():
                tensor.copy_(own[name])
        fn(model, group)
    mark(REPLACED, names=[name for name, p in model.named_parameters(remove_duplicate=False) if p is not before[name]])
    return numbers(model)
