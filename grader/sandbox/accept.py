"""What came out of the sandbox, taken only if it is well formed: the right fields of the right types, and nothing else."""

import dataclasses
import functools
import itertools
import json
import operator
import sys
import types
from collections.abc import Mapping
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec
from nbformat import NotebookNode
from nbformat.v4 import new_output

from grader.evidence.evidence import DEADLOCKED, MISSING, RAISED, RETURNED, TIMED_OUT, Evidence, unpack

MAX_JSON_BYTES = 64 << 20
MAX_CALLS, MAX_SPANS = 20_000, 20_000  # of one case; the references make hundreds
MAX_ERROR, MAX_KIND, MAX_PRINTED = 20_000, 100, 200_000  # characters
MAX_REMARKS, MAX_REMARK, MAX_LINES = 100, 500, 100
FINITE = msgspec.Meta(ge=-sys.float_info.max, le=sys.float_info.max)
ENDINGS = (RETURNED, RAISED, DEADLOCKED, TIMED_OUT)
SHOWN = ("text/plain", "image/png", "image/jpeg")  # of a student's outputs: nothing that a browser would run


class Malformed(ValueError):
    """Evidence that is not what the ranks' program writes."""


class TooMuch(Malformed):
    """Evidence as the ranks' program writes it, and more of it than is judged. Its words are for the student too."""


def evidences(name: str, files: Mapping[str, bytes], cases: int) -> list[Evidence]:
    """The evidence of one exercise, in order of the cases.  Raises: Malformed."""
    evidences: list[Evidence] = []
    while len(evidences) < cases and f"{name}/{len(evidences)}.json" in files:
        evidences.append(_evidence(f"{name}/{len(evidences)}", files))
    return evidences


def outputs(content: bytes) -> list[NotebookNode]:
    """A cell's outputs, without anything that a browser would run.  Raises: Malformed."""
    kept = []
    for output in _json("a cell's outputs", content, list[Any]):
        kind = output.get("output_type") if isinstance(output, dict) else None
        if kind == "stream":
            kept.append(new_output("stream", name="stderr" if output.get("name") == "stderr" else "stdout",
                                   text=_text(output.get("text", ""))))
        elif kind == "error":
            trace = output.get("traceback", [])
            kept.append(new_output("error", ename=_text(output.get("ename", "")), evalue=_text(output.get("evalue", "")),
                                   traceback=[_text(line) for line in trace] if isinstance(trace, list) else []))
        elif kind in ("display_data", "execute_result") and isinstance(output.get("data"), dict):
            data = {mime: _text(output["data"][mime]) for mime in SHOWN if isinstance(output["data"].get(mime), str)}
            kept.append(new_output("display_data", data))
    return kept


def remarks(content: bytes) -> list[str]:
    """What the program that ran the cells has to say.  Raises: Malformed."""
    return [remark[:MAX_REMARK] for remark in _json("remarks", content, list[str])[:MAX_REMARKS]]


def _evidence(stem: str, files: Mapping[str, bytes]) -> Evidence:
    facts = _json(stem, files[f"{stem}.json"], dict[str, Any])
    missing = _fit(facts.pop("missing", None), list[int], f"{stem}.missing")
    try:
        values = unpack(files[f"{stem}.safetensors"])
    except (KeyError, ValueError) as error:
        raise Malformed(f"{stem}: {error}") from None
    if not isinstance(values, list):
        raise Malformed(f"{stem}: expected a list of results, found {values!r:.60}")
    facts["outputs"] = []
    evidence = msgspec.convert(_fit(facts, _all_fields(Evidence), stem), Evidence, from_attributes=True)
    if evidence.ending not in ENDINGS:
        raise Malformed(f"{stem}.ending: expected one of {ENDINGS}, found {evidence.ending!r:.60}")
    for what, found, most in (("calls", evidence.trace.calls, MAX_CALLS), ("marks", evidence.trace.spans, MAX_SPANS)):
        if len(found) > most:
            raise TooMuch(f"{len(found):,} {what} in one case are more than the {most:,} that are judged")
    outputs = [MISSING if rank in missing else value for rank, value in enumerate(values)]
    return dataclasses.replace(evidence, outputs=outputs, error=evidence.error[:MAX_ERROR], said=evidence.said[:MAX_ERROR],
                               error_kind=evidence.error_kind[:MAX_KIND], lines=evidence.lines[:MAX_LINES],
                               prints={rank: _first(lines, MAX_PRINTED) for rank, lines in evidence.prints.items()})


def _first(lines: list[str], most: int) -> list[str]:
    """As many of the lines as fit into so many characters."""
    lengths = itertools.accumulate(len(line) + 1 for line in lines)
    return [line for line, length in zip(lines, lengths, strict=True) if length <= most]


def _text(value: Any) -> str:
    """Without half characters (lone surrogates), which no file in UTF-8 can hold."""
    return str(value).encode(errors="replace").decode()


def _json(path: str, content: bytes, wanted: Any) -> Any:
    """JSON as type `wanted`.  Raises: Malformed."""
    if len(content) > MAX_JSON_BYTES:
        raise Malformed(f"{path}: {len(content)} bytes are more than the {MAX_JSON_BYTES} allowed")
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"{path} is not JSON: {error}") from None
    return _fit(value, wanted, path)


def _fit(value: Any, wanted: Any, path: str) -> Any:
    """`value`, which came from JSON, as type `wanted`; lists become tuples where those are asked.  Raises: Malformed."""
    try:
        return msgspec.convert(value, wanted, str_keys=True)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:  # ValueError: half characters
        raise Malformed(f"{path}: {error!s:.300}") from None


# ── types that allow less than a dataclass ──


def _strict(wanted: Any) -> Any:
    """The type of a dataclass's field, as it must be in JSON that nobody vouches for: no infinite number, no NaN."""
    if dataclasses.is_dataclass(wanted):
        return _all_fields(wanted)
    if wanted is float:
        return Annotated[float, FINITE]
    parts = tuple(map(_strict, get_args(wanted)))
    if not parts:
        return wanted
    return functools.reduce(operator.or_, parts) if isinstance(wanted, types.UnionType) else get_origin(wanted)[parts]


@functools.cache
def _all_fields(kind: type) -> type[msgspec.Struct]:
    """A dataclass's fields, each of which must be there, and no other: of a dataclass msgspec itself takes any part."""
    fields = [(name, _strict(hint)) for name, hint in get_type_hints(kind).items()]
    return msgspec.defstruct(kind.__name__, fields, frozen=True, forbid_unknown_fields=True)
