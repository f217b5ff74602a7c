"""How a rank calls fitted_share."""

from collections.abc import Callable
from typing import Any

from grader.calling.watching_inputs import watched
from grader.evidence.case import REFUSED


def call(fn: Callable, inputs: dict[str, Any], group) -> Any:
    """fn(steps, shares); or where one of them is empty, which of their names a ValueError has in its words."""
    try:
        return watched(fn, inputs)
    except ValueError as error:
        if all(inputs.values()):
            raise
        return {REFUSED: [name for name in inputs if name in str(error).lower()]}
