"""What every check has in common, in a student's notebook and in the sandbox: what it is given, and how it fails."""

import inspect
from collections.abc import Container, Sequence
from typing import Any

from utils.deadlocks.errors import BadType, ShowsItself
from utils.ranks.payload import pack


class CheckFailed(ShowsItself, AssertionError):
    """A check that was not passed in full; `verdict` has the details. In the sandbox, which checks nothing, never raised."""

    def __init__(self, message: str, verdict: Any):
        super().__init__(message)
        self.verdict = verdict


def only_argument(exercise: str, args: tuple) -> Any:
    """What a check was given.  Raises: TypeError unless it is one thing."""
    if len(args) != 1:
        raise BadType(f"check.{exercise} takes one thing, your function: check.{exercise}({exercise}); "
                      f"got {len(args)} arguments")
    return args[0]


def pack_function(exercise: str, parameters: Sequence[str], fn: Any, exercises: Container[str]) -> bytes:
    """The function as bytes. exercises: all names of exercises.  Raises: TypeError in the student's words."""
    if not callable(fn):
        raise BadType(f"check.{exercise}({exercise}) takes your function itself; got {type(fn).__name__}: {fn!r:.80}")
    name = getattr(fn, "__name__", "")
    if name != exercise and name in exercises:
        raise BadType(f"check.{exercise}({exercise}) is the check of {exercise!r}, but it was given the function {name!r}")
    try:
        inspect.signature(fn).bind(*parameters)
    except TypeError:
        raise BadType(f"{exercise} must take ({', '.join(parameters)}), as in the skeleton; "
                      f"yours takes {inspect.signature(fn)}") from None
    except ValueError:
        pass  # a builtin without a signature
    return pack(fn, f"the function {name}", fn)
