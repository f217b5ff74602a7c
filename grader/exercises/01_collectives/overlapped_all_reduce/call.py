"""How a rank calls overlapped_all_reduce."""

from collections.abc import Callable
from typing import Any

from utils.trace.spans import span


def call(fn: Callable, inputs: dict[str, Any], group) -> Any:
    """fn(x, compute, group): compute() is work that does not need the communicated tensor."""

    def compute():
        with span("compute"):
            total = 0.0
            for step in range(inputs["steps"]):
                total += float((step * 0.5) ** 0.5)
        return inputs["y"] * 2

    return fn(inputs["x"], compute, group)
