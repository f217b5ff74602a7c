"""What came of one case, as plain data: outputs, trace, bytes on the wire, memory, how it ended. No pickle anywhere.

Values travel as safetensors with their structure in JSON beside the tensors.
"""

import json
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save

from grader.evidence.endings import DEADLOCKED, RAISED, RETURNED, TIMED_OUT  # noqa: F401  who needs evidence has them here
from grader.evidence.traffic import Observed
from utils.trace.memory import RankMemory
from utils.trace.source import Line
from utils.trace.trace import Trace

MAX_BYTES = 256 << 20

SKELETON_ERROR = "NotImplementedError"  # what an untouched skeleton raises
NOT_WRITTEN = f"{{}} is not written yet: replace its raise {SKELETON_ERROR} line."


class Placeholder:
    """Stands where no value can stand, and says why."""

    def __init__(self, words: str):
        self._words = words

    def __repr__(self) -> str:
        return self._words


MISSING = Placeholder("nothing")  # for the output of a rank that returned nothing


@dataclass(frozen=True)
class Weight:
    """Memory of a rank at a named moment: bytes that its processes and folders had for themselves, read from outside; and
    what its own meter told of tensors."""

    rank: int
    moment: str
    bytes: int
    told_bytes: int


@dataclass(frozen=True)
class Evidence:
    """outputs: one value a rank (MISSING where a rank did not return); error: in words, for endings but "returned";
    error_kind: the class of the exception, or the kind of the deadlock; lines: where it ended, from the frames of the ranks
    that ended it; fix: what would help a deadlock; prints: what ranks printed, in order;
    loopback_bytes: all that crossed the network, headers included, counted outside the ranks (isolated runs only);
    messages: what crossed it, read outside the ranks (None where there was no witness);
    weights: of the moments at which ranks stood still to be weighed, in order (None where nobody weighs);
    said: class and message of the exceptions that ended it, without any line of the student's code."""

    outputs: list[Any]
    ending: str
    trace: Trace
    error: str = ""
    error_kind: str = ""
    lines: tuple[Line, ...] = ()
    fix: str = ""
    memory: list[RankMemory | None] = field(default_factory=list)
    prints: dict[int, list[str]] = field(default_factory=dict)
    elapsed_s: float = 0.0
    starved_s: float = 0.0
    loopback_bytes: int | None = None
    messages: Observed | None = None
    weights: list[Weight] | None = None
    said: str = ""


def pack(value: Any, every: int = 1) -> bytes:
    """Bytes of a value made of tensors, numbers (NumPy's too), strings, None, lists, tuples and dictionaries.

    A fraction becomes a float. every: of each tensor only every `every`-th number, in a row.

    Raises: TypeError naming the part that is none of these.
    """
    tensors: dict[str, torch.Tensor] = {}
    structure = _take_apart(value, tensors, "the result", every)
    return save(tensors, metadata={"structure": json.dumps(structure)})


def unpack(data: bytes) -> Any:
    """The value that `pack` made bytes of.  Raises: ValueError if the bytes are not such a thing."""
    if len(data) > MAX_BYTES:
        raise ValueError(f"a result of {len(data)} bytes is more than the {MAX_BYTES} allowed")
    try:
        header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
        return _put_together(json.loads(header["__metadata__"]["structure"]), load(data))
    except Exception as error:
        raise ValueError(f"not a packed result: {error}") from None


def _take_apart(value: Any, tensors: dict[str, torch.Tensor], path: str, every: int) -> Any:
    if isinstance(value, torch.Tensor):
        name = f"t{len(tensors)}"
        whole = torch.Tensor.detach(value).cpu()
        tensors[name] = (whole if every == 1 else whole.flatten()[::every]).contiguous().clone()
        return {"tensor": name}
    if isinstance(value, np.number | np.bool_):
        value = value.item()
    if isinstance(value, Fraction):
        value = float(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return {"value": value}
    if isinstance(value, (list, tuple)):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [_take_apart(item, tensors, f"{path}[{i}]", every) for i, item in enumerate(value)]}
    if isinstance(value, dict):
        return {"dict": [[_take_apart(k, tensors, path, every), _take_apart(v, tensors, f"{path}[{k!r}]", every)]
                         for k, v in value.items()]}
    raise TypeError(f"{path} is a {type(value).__name__}; expected tensors, numbers, strings, or lists, tuples and "
                    "dictionaries of them")


def _put_together(structure: dict, tensors: dict[str, torch.Tensor]) -> Any:
    (kind, content), = structure.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "value":
        return content
    if kind == "dict":
        return {_put_together(k, tensors): _put_together(v, tensors) for k, v in content}
    items = [_put_together(item, tensors) for item in content]
    return tuple(items) if kind == "tuple" else items
