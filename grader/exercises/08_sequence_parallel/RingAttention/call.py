"""How a rank calls RingAttention."""

from typing import Any

import torch

from grader.calling.letting_go import settled_bytes
from grader.calling.rings import FLOPS, LARGEST, RESULTS, backward_of
from grader.calling.sequences import KEPT, leaf
from grader.calling.splitting import built
from grader.calling.weighing import END, weigh
from utils.costs.flops import FlopCounter
from utils.trace.memory import held_bytes
from utils.trace.spans import mark


def call(function: type[torch.autograd.Function], inputs: dict[str, Any], group) -> dict[str, Any]:
    """o = function.apply(q, k, v, group) and its gradients; marks the work done and what stands between the two.

    Or what a ValueError says of the sizes that do not fit.
    """
    q, k, v = (leaf(inputs[name]) for name in "qkv")
    start = held_bytes()
    with FlopCounter() as forward:
        o = built(lambda: function.apply(q, k, v, group), inputs.get("sizes"))
    if isinstance(o, dict):
        return o
    mark(KEPT, bytes=settled_bytes(start, RESULTS * q.nbytes))
    weigh(inputs, END)
    with FlopCounter() as backward:
        backward_of(o, inputs["weights"])
    mark(FLOPS, count=forward.total + backward.total)
    mark(LARGEST, count=max(forward.largest, backward.largest))
    return {"o": o, "dq": q.grad, "dk": k.grad, "dv": v.grad}
