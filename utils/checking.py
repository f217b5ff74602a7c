"""Whether arguments can be what they say: clear words where a number or a name cannot work."""

import difflib
import math
import numbers
from collections.abc import Collection
from typing import Any

from utils.deadlocks.errors import BadType, BadValue


def require_count(what: str, value: Any, least: int = 1) -> None:
    """A whole number from `least`.  Raises: TypeError or ValueError in words."""
    if type(value) is int and value >= least:  # almost always; a search makes thousands of layouts
        return
    require_number(what, value)
    if not isinstance(value, numbers.Integral):
        hint = f": write {int(value)}" if value == int(value) else ""
        raise BadType(f"{what} must be a whole number; got {value!r}{hint}")
    if value < least:
        raise BadValue(f"{what} must be at least {least}; got {value!r}")


def require_positive(what: str, value: Any) -> None:
    """A number above 0 and finite.  Raises: TypeError or ValueError in words."""
    require_number(what, value)
    if value <= 0:
        raise BadValue(f"{what} must be positive; got {value!r}")


def require_number(what: str, value: Any) -> None:
    """A finite number, no text, no bool.  Raises: TypeError or ValueError in words."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        hint = ' (write 1e9, not "1B")' if isinstance(value, str) else ""
        raise BadType(f"{what} must be a number; got {value!r}{hint}")
    if not math.isfinite(value):
        raise BadValue(f"{what} must be finite; got {value!r}")


def require_kind(what: str, value: Any, kind: type) -> None:
    """An object of this class.  Raises: TypeError in words."""
    if not isinstance(value, kind):
        raise BadType(f"{what} must be {'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}; got {value!r}")


def require_flag(what: str, value: Any) -> None:
    """True or False.  Raises: TypeError in words."""
    if not isinstance(value, bool):
        raise BadType(f"{what} must be True or False; got {value!r}")


def require_name(what: str, value: Any, known: Collection[str], advice: str = "") -> None:
    """One of the known names.  Raises: ValueError with the nearest of them, and what else could be done."""
    if isinstance(value, str) and value in known:
        return
    folded = {name.casefold(): name for name in known}
    near = difflib.get_close_matches(str(value).casefold(), folded, n=1, cutoff=0.3)
    hint = f": did you mean {folded[near[0]]!r}?" if near else "."
    raise BadValue(f"no {what} called {value!r}{hint} Known: {', '.join(known)}{advice}")
