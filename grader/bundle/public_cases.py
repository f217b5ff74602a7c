"""An exercise's public cases and their results as data in a file beside it: all that a student's copy has of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from grader.evidence.case import Case
from grader.evidence.evidence import pack, unpack

SUFFIX = ".safetensors"


def public_cases(exercise_file: str) -> Callable[..., list[Case]]:
    """An Exercise's make_cases: the cases of the data beside `exercise_file`, whatever the seed."""
    return lambda *_: [Case(one["name"], one["inputs"], one["groups"]) for one in _read(exercise_file)]


def public_results(exercise_file: str) -> Callable[[Case], list[Any]]:
    """An Exercise's oracle: looks up the case in the data beside `exercise_file`."""

    def results(case: Case) -> list[Any]:
        one, = (one for one in _read(exercise_file) if one["name"] == case.name)
        return [one["results"][index] for index in one["result_of_rank"]]

    return results


def to_bytes(cases: Sequence[Case], results: Sequence[list[Any]]) -> bytes:
    """The data file of these cases; `results` has one list a case, one result a rank."""
    if len({case.name for case in cases}) < len(cases):
        raise ValueError(f"cases need names that differ; these are {', '.join(case.name for case in cases)}")
    return pack([{"name": case.name, "inputs": case.inputs, "groups": case.groups} | _each_once(of_ranks)
                 for case, of_ranks in zip(cases, results, strict=True)])


def _each_once(of_ranks: list[Any]) -> dict[str, list]:
    """Each different result once, and which of them is each rank's: after an all-reduce all ranks hold the same."""
    packed = [pack(result) for result in of_ranks]
    different = list(dict.fromkeys(packed))
    return {"results": [of_ranks[packed.index(one)] for one in different],
            "result_of_rank": [different.index(one) for one in packed]}


def _read(exercise_file: str) -> list[dict[str, Any]]:
    return unpack(Path(exercise_file).with_suffix(SUFFIX).read_bytes())
