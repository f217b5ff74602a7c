"""In place of a module that an exercise forbids, where students' cells run: its names, without anything behind them."""

import math
import sys
from collections.abc import Callable
from typing import Any

from grader.calling.forbidden import why

COUNTED = ("utils.costs.formulas", "bytes_sent_per_rank")  # by the recorder, at every collective of a cell's ranks


class Name(type):
    """A class, so that it can stand in an annotation and goes along by name; whoever uses it is told why not."""

    why = ""

    def refuse(cls, *arguments: Any, **named: Any) -> Any:
        raise RuntimeError(cls.why)

    __call__ = __iter__ = __len__ = __getitem__ = __contains__ = refuse

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):  # asked for by those who show or pack it
            raise AttributeError(name)
        cls.refuse()


def names_of(module: str, forbidden: str) -> Callable[[str], Any]:
    """A module's __getattr__: it has every name. forbidden: the module or package to which it belongs."""

    def name_in_module(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        made = _unknown if (module, name) == COUNTED else Name(name, (), {"__module__": module, "why": why(forbidden)})
        setattr(sys.modules[module], name, made)  # the same each time, or it could not go along by name
        return made

    return name_in_module


def _unknown(*_: Any) -> float:
    """Ranks of a cell can be recorded without the formula."""
    return math.nan


_unknown.__module__, _unknown.__qualname__ = COUNTED
