"""How a rank calls VocabularyParallelEmbedding."""

from collections.abc import Callable
from typing import Any

from torch import nn

from grader.calling.splitting import built, forward_and_back, mark_parameters


def call(cls: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """module = cls(embedding, group), one pass each way → own rows, y, their gradient."""
    table = inputs["table"]
    module = built(lambda: cls(nn.Embedding(*table.shape, _weight=table.clone()), group), inputs["refused"])
    if not isinstance(module, nn.Module):
        return module
    mark_parameters(module)
    start = module.weight.detach().clone()
    y = forward_and_back(lambda: module(inputs["ids"]), inputs["weights"])
    return {"weight": start, "y": y, "dweight": module.weight.grad}
