"""An exercise as students get it: its public cases, the right results and what slips make of them as data in a file."""

from collections.abc import Sequence
from typing import Any

from grader.evidence.case import Case
from grader.evidence.evidence import pack, unpack
from grader.judging.exercise import Exercise, Slip, Trial

FILE = "public.safetensors"
CONTRACT = ("title", "parameters", "points", "tolerance", "timeout_s", "trains", "measured", "forbidden",
            "edges", "faults")
LARGE_BYTES = 64 << 10  # of cases with larger results, what slips make of them is left out: smaller ones tell them apart
ENOUGH_BYTES = 16 << 10  # and of cases with results above this, but for slips that show in no smaller one


def to_bytes(exercise: Exercise, trials: Sequence[Trial]) -> bytes:
    """The file of an exercise.  Raises: ValueError where two cases have one name."""
    names = [trial.case.name for trial in trials]
    if len(set(names)) < len(names):
        raise ValueError(f"cases need names that differ; these are {', '.join(names)}")
    bytes_of = {trial: len(pack(trial.right)) for trial in trials}
    small = [trial for trial in trials if bytes_of[trial] <= LARGE_BYTES]
    wrong = [exercise.wrong_results(trial, exercise.slips) for trial in small]  # of each case, of each slip
    return pack({
        "contract": {name: getattr(exercise, name) for name in CONTRACT},
        "trials": [{"name": trial.case.name, "inputs": trial.case.inputs, "groups": trial.case.groups,
                    "right": _each_once(trial.right)} for trial in trials],
        "slips": [{"id": slip.id, "wrong": {  # by the names of the cases in which it shows
            trial.case.name: _each_once(of_case[number])
            for trial, of_case in zip(small, wrong, strict=True) if trial in _telling(bytes_of, small, wrong, number)}}
            for number, slip in enumerate(exercise.slips)],
    })


def _telling(bytes_of: dict[Trial, int], small: Sequence[Trial], wrong: Sequence[list], number: int) -> list[Trial]:
    """The cases in which a slip shows: those that are small enough, or else the smallest."""
    shown = [trial for trial, of_case in zip(small, wrong, strict=True) if of_case[number] is not None]
    return [trial for trial in shown if bytes_of[trial] <= ENOUGH_BYTES] or sorted(shown, key=bytes_of.__getitem__)[:1]


def from_bytes(content: bytes) -> Exercise:
    """The exercise of such a file; whatever the seed, it has these cases."""
    data = unpack(content)
    cases = [Case(trial["name"], trial["inputs"], trial["groups"]) for trial in data["trials"]]
    right = {trial["name"]: _of_ranks(trial["right"]) for trial in data["trials"]}
    contract = data["contract"] | {name: tuple(data["contract"][name]) for name in ("parameters", "forbidden")}
    return Exercise(make_cases=lambda draw, grading: cases, oracle=lambda case: right[case.name],
                    slips=tuple(map(_slip, data["slips"])), **contract)


def _slip(data: dict[str, Any]) -> Slip:
    return Slip(data["id"], {name: _of_ranks(results) for name, results in data["wrong"].items()})


def _each_once(of_ranks: list[Any]) -> dict[str, list]:
    """Each different result once, and which of them is each rank's: after an all-reduce all ranks hold the same."""
    packed = [pack(result) for result in of_ranks]
    different = list(dict.fromkeys(packed))
    return {"results": [of_ranks[packed.index(content)] for content in different],
            "result_of_rank": [different.index(content) for content in packed]}


def _of_ranks(once: dict[str, list]) -> list[Any]:
    return [once["results"][index] for index in once["result_of_rank"]]

