"""How a rank calls ulysses_attention."""

from collections.abc import Callable
from typing import Any

from grader.calling.rings import backward_of
from grader.calling.sequences import leaf
from grader.calling.splitting import built


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """o = fn(q, k, v, group) and its gradients; or what a ValueError says of the sizes that do not fit."""
    q, k, v = (leaf(inputs[name]) for name in "qkv")
    o = built(lambda: fn(q, k, v, group), inputs.get("sizes"))
    if isinstance(o, dict):
        return o
    backward_of(o, inputs["weights"])
    return {"o": o, "dq": q.grad, "dk": k.grad, "dv": v.grad}
