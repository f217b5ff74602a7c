"""How a rank calls VocabularyParallelEmbedding."""

from collections.abc import Callable
from typing import Any

from torch import nn

from grader.calling.splitting import BACKWARD, FORWARD, built, mark_parameters
from utils.trace.spans import span


def call(cls: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """module = cls(embedding, group), one pass each way → own rows, y, their gradient."""
    table = inputs["table"]
    module = built(lambda: cls(nn.Embedding(*table.shape, _weight=table.clone()), group), inputs["refused"])
    if not isinstance(module, nn.Module):
        return module
    mark_parameters(module)
    start = module.weight.detach().clone()
    with span(FORWARD):
        y = module(inputs["ids"])
    with span(BACKWARD):
        (y * inputs["weights"]).sum().backward()
    return {"weight": start, "y": y, "dweight": module.weight.grad}
