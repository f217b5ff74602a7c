"""How a rank calls speak_in_order."""

from collections.abc import Callable
from typing import Any

from utils.trace.spans import mark


def call(fn: Callable, inputs: dict[str, Any], group) -> Any:
    """fn(say, text, group): say(text) prints and leaves a mark in the trace."""

    def say(text):
        mark("say", text=str(text))
        print(text, flush=True)

    return fn(say, inputs["text"], group)
