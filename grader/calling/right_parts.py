"""Inside a rank: right parts in the place of a student's own, so that a mistake costs the exercise where it was made."""

from collections.abc import Callable
from types import FunctionType


def hand_parts(fn: Callable, **parts: Callable) -> None:
    """From now on fn, a function or a class, finds these under their names. It lasts, so in a rank only."""
    functions = vars(fn).values() if isinstance(fn, type) else [fn]
    for function in functions:
        if isinstance(function, FunctionType):
            function.__globals__.update(parts)
