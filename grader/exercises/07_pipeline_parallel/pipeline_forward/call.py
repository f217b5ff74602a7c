"""How a rank calls pipeline_forward."""

from collections.abc import Callable
from typing import Any

from grader.calling.pipelining import WatchedStage


def call(fn: Callable, inputs: dict[str, Any], group) -> Any:
    """fn(stage, x, n_micro, like, group)"""
    return fn(WatchedStage(inputs["layers"]), inputs["x"], inputs["n_micro"], inputs["like"], group)
