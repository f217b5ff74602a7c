"""What came out of the sandbox, taken only if it is well formed: the right fields of the right types, and nothing else."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import types
from collections.abc import Mapping
from typing import Any, Union, get_args, get_origin, get_type_hints

from nbformat import NotebookNode
from nbformat.v4 import new_output

from grader.evidence.evidence import DEADLOCKED, MISSING, RAISED, RETURNED, TIMED_OUT, Evidence, unpack

MAX_JSON_BYTES = 64 << 20
MAX_FUNCTION_BYTES = 16 << 20
ENDINGS = (RETURNED, RAISED, DEADLOCKED, TIMED_OUT)
SHOWN = ("text/plain", "image/png", "image/jpeg")  # of a student's outputs: nothing that a browser would run


class Malformed(ValueError):
    """Evidence that is not what the ranks' program writes."""


def evidences(name: str, files: Mapping[str, bytes], cases: int) -> list[Evidence]:
    """The evidence of one exercise, in order of the cases.  Raises: Malformed."""
    found = []
    while len(found) < cases and f"{name}/{len(found)}.json" in files:
        found.append(_evidence(f"{name}/{len(found)}", files))
    return found


def outputs(content: bytes) -> list[NotebookNode]:
    """A cell's outputs, without anything that a browser would run.  Raises: Malformed."""
    found = []
    for one in _json("a cell's outputs", content):
        kind = one.get("output_type") if isinstance(one, dict) else None
        if kind == "stream":
            found.append(new_output("stream", name="stderr" if one.get("name") == "stderr" else "stdout",
                                    text=str(one.get("text", ""))))
        elif kind == "error":
            trace = one.get("traceback", [])
            found.append(new_output("error", ename=str(one.get("ename", "")), evalue=str(one.get("evalue", "")),
                                    traceback=[str(line) for line in trace] if isinstance(trace, list) else []))
        elif kind in ("display_data", "execute_result") and isinstance(one.get("data"), dict):
            data = {mime: one["data"][mime] for mime in SHOWN if isinstance(one["data"].get(mime), str)}
            found.append(new_output("display_data", data))
    return found


def remarks(content: bytes) -> list[str]:
    """What the program that ran the cells has to say.  Raises: Malformed."""
    return fit(_json("remarks", content), list[str], "remarks")


def fit(value: Any, wanted: Any, path: str) -> Any:
    """`value`, which came from JSON, as type `wanted`; lists become tuples where those are asked.  Raises: Malformed."""
    kind, parts = get_origin(wanted) or wanted, get_args(wanted)
    if kind in (Union, types.UnionType):
        for part in parts:
            try:
                return fit(value, part, path)
            except Malformed:
                continue
        raise _malformed(path, wanted, value)
    if dataclasses.is_dataclass(kind):
        return _fit_fields(value, kind, path)
    if kind in (list, tuple) and isinstance(value, list):
        return kind(fit(one, parts[0] if parts else Any, f"{path}[{i}]") for i, one in enumerate(value))
    if kind is dict and isinstance(value, dict):
        key, content = parts or (str, Any)
        return {_key(k, key, path): fit(v, content, f"{path}.{k}") for k, v in value.items()}
    if kind is float and type(value) in (int, float) and math.isfinite(value):
        return float(value)
    if (kind in (int, str, bool) and type(value) is kind) or (kind is type(None) and value is None) or kind is Any:
        return value
    raise _malformed(path, wanted, value)


def _evidence(stem: str, files: Mapping[str, bytes]) -> Evidence:
    facts = _json(stem, files[f"{stem}.json"])
    if not isinstance(facts, dict):
        raise _malformed(stem, dict, facts)
    missing = fit(facts.pop("missing", None), list[int], f"{stem}.missing")
    try:
        values = unpack(files[f"{stem}.safetensors"])
    except (KeyError, ValueError) as error:
        raise Malformed(f"{stem}: {error}") from None
    if not isinstance(values, list):
        raise _malformed(stem, list, values)
    facts["outputs"] = []
    found = fit(facts, Evidence, stem)
    if found.ending not in ENDINGS:
        raise _malformed(f"{stem}.ending", ENDINGS, found.ending)
    outputs = [MISSING if rank in missing else value for rank, value in enumerate(values)]
    return dataclasses.replace(found, outputs=outputs)


def _fit_fields(value: Any, kind: type, path: str) -> Any:
    hints = _hints(kind)
    if not isinstance(value, dict) or set(value) != set(hints):
        raise _malformed(path, kind, value)
    return kind(**{name: fit(value[name], hint, f"{path}.{name}") for name, hint in hints.items()})


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _key(key: str, wanted: Any, path: str) -> Any:
    if wanted is int and key.lstrip("-").isdigit():
        return int(key)
    return fit(key, wanted, path)


def _json(path: str, content: bytes) -> Any:
    if len(content) > MAX_JSON_BYTES:
        raise Malformed(f"{path}: {len(content)} bytes are more than the {MAX_JSON_BYTES} allowed")
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"{path} is not JSON: {error}") from None


def _malformed(path: str, wanted: Any, value: Any) -> Malformed:
    return Malformed(f"{path}: expected {getattr(wanted, '__name__', wanted)}, found {value!r:.60}")
