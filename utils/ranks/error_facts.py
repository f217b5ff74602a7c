"""An exception as plain facts, which travel where its class is not known: what it says, where it arose, and from what."""

import dis
import re
import traceback
from types import TracebackType
from typing import Any

import torch.distributed as dist

from utils.trace.user_code import is_user_file

MOST_MESSAGE, MOST_NOTE = 4000, 2000  # characters
MOST_FRAMES, MOST_RELATED, MOST_DEPTH = 8, 12, 4
_RAISED = (dis.opmap["RAISE_VARARGS"], dis.opmap["RERAISE"])
_LOST = re.compile(r"\[\S*\bgloo/transport/\S+:\d+\]")  # where in gloo a connection was found closed, or nothing came


def describe_error(error: BaseException, machinery: tuple[str, ...] = ()) -> dict[str, Any]:
    """Class, message, lines of user code (outermost first), notes; the same of all errors that it came from or consists of.

    lost: whether it is torch's, and says that another rank is gone or has not answered.
    related: each with `why` in words and its `depth`, in the order in which they are to be read.
    """
    related = _related(error, machinery, {id(error)}, 0)
    return _facts(error, machinery) | {"lost": _is_lost_connection(error), "related": related}


def _facts(error: BaseException, machinery: tuple[str, ...]) -> dict[str, Any]:
    frames, shown = _frames(error), _user_frames(error, machinery)
    if not shown and not machinery:  # in a check, lines of what checks would tell the student nothing
        shown = frames[-3:]
    return {"type": type(error).__name__, "message": _text(error)[:MOST_MESSAGE], "frames": shown[-MOST_FRAMES:],
            "notes": [_text(note)[:MOST_NOTE] for note in _notes(error)]}


def _frames(error: BaseException) -> list[list]:
    return [[f.filename, f.lineno, f.name] for f in traceback.extract_tb(error.__traceback__)]


def _user_frames(error: BaseException, machinery: tuple[str, ...]) -> list[list]:
    return [frame for frame in _frames(error) if is_user_file(frame[0], machinery)]


def _related(error: BaseException, machinery: tuple[str, ...], seen: set[int], depth: int) -> list[dict[str, Any]]:
    """Parts of a group first, then what Python would show above: `raise … from`, or what the program was handling.

    What a library has handled within itself is left out.
    """
    parts = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    others = [(f"{number} of {len(parts)}", part) for number, part in enumerate(parts, 1)]
    if error.__cause__ is not None:
        others.append(("caused by", error.__cause__))
    elif error.__context__ and not error.__suppress_context__ and _user_frames(error.__context__, machinery):
        others.append(("raised while handling", error.__context__))
    related: list[dict[str, Any]] = []
    for why, other in others:
        if id(other) not in seen and depth < MOST_DEPTH and len(seen) <= MOST_RELATED:
            seen.add(id(other))
            related.append(_facts(other, machinery) | {"why": why, "depth": depth})
            related += _related(other, machinery, seen, depth + 1)
    return related


def _text(value: Any) -> str:
    """str(value), whatever its class makes of it."""
    try:
        return str(value)
    except Exception as error:
        return f"(it has no text: its __str__ raised {type(error).__name__})"


def _notes(error: BaseException) -> list[Any]:
    notes = getattr(error, "__notes__", [])
    return list(notes) if isinstance(notes, (list, tuple)) else [notes]


def _is_lost_connection(error: BaseException) -> bool:
    """Whether it comes out of torch's communication: by its class and by where it came up, for anybody may use its words."""
    if error.__traceback__ is None or _was_raised_in_python(error.__traceback__):
        return False
    return isinstance(error, dist.DistError) or (type(error) is RuntimeError and bool(_LOST.search(_text(error))))


def _was_raised_in_python(last: TracebackType) -> bool:
    """By a raise statement, and not by compiled code."""
    while last.tb_next is not None:
        last = last.tb_next
    return last.tb_frame.f_code.co_code[last.tb_lasti] in _RAISED
