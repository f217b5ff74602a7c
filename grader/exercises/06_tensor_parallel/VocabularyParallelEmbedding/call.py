"""How a rank calls VocabularyParallelEmbedding."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from grader.calling.splitting import at_full_size, built, forward_and_back, halved, mark_parameters, parts_of
from grader.calling.watching_inputs import INPUTS_LOOKED_AT
from grader.calling.weighing import END, weigh
from utils.trace.memory import held_bytes
from utils.trace.spans import mark


def call(cls: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """module = cls(embedding, group), one pass each way → own rows, y, their gradient. Ids are not contiguous."""
    table, before = inputs["table"], held_bytes()
    module = built(lambda: cls(halved(nn.Embedding(*table.shape, _weight=table.clone())), group), inputs["refused"])
    if not isinstance(module, nn.Module):
        mark(INPUTS_LOOKED_AT, changed=[])
        return module
    at_full_size(module)
    table.zero_()  # what was cut is known to nobody who did not keep it
    mark_parameters(module, before)
    start = parts_of(module, "weight")["weight"].detach().clone()
    ids = torch.cat([inputs["ids"]] * 2, -1)[..., :inputs["ids"].shape[-1]]
    y = forward_and_back(lambda: module(ids), inputs["weights"])
    mark(INPUTS_LOOKED_AT, changed=[] if torch.equal(ids, inputs["ids"]) else ["ids"])
    weigh(inputs, END)
    return {"weight": start, "y": y, "dweight": module.weight.grad}
