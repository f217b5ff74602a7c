"""What mistakes make of a case: they are run on ranks, all of them in one launch.

Results of public cases are kept in build/derived, by a hash of all that they follow from; those of others in memory.
"""

import fcntl
import hashlib
import pickle
import platform
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import cloudpickle
import torch

from grader.calling.collect import SEED, Candidate, job_for
from grader.calling.handing_out import Given, given
from grader.calling.task import call_each
from grader.evidence.case import Case
from grader.evidence.evidence import pack, unpack
from grader.exercises.references import ROOT, mistakes_of
from grader.judging.exercise import PUBLIC_SEED, Draw, Exercise, Mistake
from grader.judging.general import IN_GROUPS_ONLY, LAST_RESORTS
from utils.ranks.launcher import launch

KEPT = ROOT / "build" / "derived"
TASK = cloudpickle.dumps(call_each)
Packed = list[bytes | None] | None  # what each rank returned, None for a bystander; None where a rank returned nothing
_known: dict[tuple[str, str], dict[str, Packed]] = {}  # by exercise and case


def with_mistakes(exercise: Exercise) -> Exercise:
    """With those of its programs that their results tell: all but those that set off a symptom or break a demand."""
    others = exercise.ids | {known.id for known in (*LAST_RESORTS, IN_GROUPS_ONLY)}
    told = [mistake for mistake in mistakes_of(exercise.unit, exercise.id) if mistake.id not in others]
    return replace(exercise, slips=tuple(told), run=wrong_results)


def wrong_results(exercise: Exercise, case: Case, mistakes: Sequence[Mistake]) -> list[list[Any] | None]:
    """What each rank returns, for each mistake; None where a rank returned nothing, because it raised or waited for ever."""
    digest = _digest(case)
    known = _known.setdefault((exercise.id, digest), {})
    if any(mistake.name not in known for mistake in mistakes):
        if digest in _public(exercise.make_cases):
            known |= _kept(exercise, case, digest)
        else:
            known |= _run(exercise, case, [mistake for mistake in mistakes if mistake.name not in known])
    return [None if (packed := known[mistake.name]) is None else [own and unpack(own) for own in packed]
            for mistake in mistakes]


def _digest(case: Case) -> str:
    """Of what ranks are given; a case in which one is late is given the same as that in which none is."""
    return hashlib.sha256(repr(case.groups).encode() + b"".join(map(pack, case.inputs))).hexdigest()


@cache
def _public(make_cases: Callable[[Draw, bool], Sequence[Case]]) -> set[str]:
    return {_digest(case) for case in make_cases(Draw(PUBLIC_SEED), False)}


def _kept(exercise: Exercise, case: Case, digest: str) -> dict[str, Packed]:
    """What all its mistakes make of the case, from the file; those that are not there are run, by one process at a time."""
    every = {mistake.name: mistake for mistake in exercise.slips if isinstance(mistake, Mistake)}
    file = KEPT / hashlib.sha256(f"{_code(exercise.unit)} {exercise.id} {digest}".encode()).hexdigest()
    try:
        KEPT.mkdir(parents=True, exist_ok=True)
        content = file.open("a+b")
    except OSError:  # a folder that is read only keeps nothing
        return _run(exercise, case, list(every.values()))
    with content:
        fcntl.flock(content, fcntl.LOCK_EX)
        content.seek(0)
        kept = _read(content.read())
        todo = [mistake for mistake in every.values() if mistake.text not in kept]
        if todo:
            results = _run(exercise, case, todo)
            kept |= {every[name].text: packed for name, packed in results.items()}
            content.truncate(0)
            content.write(pickle.dumps(kept))
    return {name: kept[mistake.text] for name, mistake in every.items()}


def _read(content: bytes) -> dict[str, Packed]:
    """What a file keeps, by the mistake's text; nothing of one whose writer was ended half way."""
    try:
        return pickle.loads(content)
    except (EOFError, pickle.UnpicklingError):
        return {}


@cache
def _code(unit: str) -> str:
    """A short name for all that results follow from beside case and mistake: our code, the references, torch."""
    patterns = ("utils/**/*.py", "grader/calling/*.py", f"grader/exercises/{unit}/*/call.py", f"solutions/{unit}/*.ipynb")
    paths = [path for pattern in patterns for path in sorted(ROOT.glob(pattern))]
    known = hashlib.sha256(f"{torch.__version__} {platform.python_version()} {platform.machine()}".encode())
    for path in paths:
        known.update(path.read_bytes())
    return known.hexdigest()


def _run(exercise: Exercise, case: Case, mistakes: Sequence[Mistake]) -> dict[str, Packed]:
    """In one launch; where that stands still, because one of them does, one by one.

    A change that the reference does not allow makes nothing: a course may have references of its own, or fewer units.
    """
    unable: dict[str, Packed] = {mistake.name: None for mistake in mistakes}
    functions = {mistake.name: function for mistake in mistakes if (function := _pickled(mistake))}
    if not functions:
        return unable
    handed = replace(given(exercise.caller, case), late_s=())  # results are the same, and nobody waits
    of_ranks = _launched(exercise, handed, list(functions.values()))
    if of_ranks is None and len(functions) > 1:
        return {name: packed for mistake in mistakes for name, packed in _run(exercise, case, [mistake]).items()}
    if of_ranks is None:
        return unable
    working = [rank for rank in range(case.world_size) if case.members(rank)]
    return unable | {name: None if any(results[rank] is None for rank in working) else list(results)
                     for name, results in zip(functions, zip(*of_ranks, strict=True), strict=True)}


def _pickled(mistake: Mistake) -> bytes | None:
    try:
        return cloudpickle.dumps(mistake.make())
    except (ValueError, OSError):
        return None


def _launched(exercise: Exercise, handed: Given, functions: list[bytes]) -> list[list[bytes | None]] | None:
    """Of each rank, what each function returned; None where not all ranks came to the end."""
    facts = {"functions": functions, "caller": exercise.caller, "forbidden": exercise.forbidden, "groups": handed.groups,
             "seed": SEED}
    candidate = Candidate(b"", exercise.timeout_s * len(functions), exercise.trains, exercise.measured, exercise.caller,
                          exercise.forbidden)
    outcome = launch(job_for(candidate, handed, TASK, pickle.dumps(facts)))
    if len(outcome.blobs) < handed.world_size:
        return None
    return [pickle.loads(outcome.blobs[rank]) for rank in range(handed.world_size)]
