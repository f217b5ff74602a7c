"""Run a notebook's cells in the sandbox, again without a cell that ended the kernel, and take what they hand over."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from grader.course.source import definitions_of, has_only_definitions
from grader.course.splice import Step
from grader.evidence import parcel
from grader.judging.exercise import Exercise
from grader.sandbox import CHECK, END, ENDED_KERNEL, NOT_DEFINED, accept
from grader.sandbox import bubblewrap as sandbox

CELL_TIMEOUT_S = 60
LIMITS = sandbox.Limits(wall_s=1800.0, cpu_s=900)  # in seconds of a machine that is not busy a cell's own limit comes first
MOST_STARTS = 4
MOST_VERSIONS = 4  # of a function that are tried


@dataclass(frozen=True)
class Version:
    """A function as it was at some moment. words: which, for people."""

    function: bytes
    words: str


@dataclass(frozen=True)
class RanCells:
    """What a run of cells left. problems: what a sandbox was ended for; remarks: what people should know."""

    files: Mapping[str, bytes]
    remarks: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    peak_bytes: int = 0

    def versions(self, exercise: str) -> list[Version]:
        """Of its function, the likeliest first: at its check cell, in the end, before (the latest first)."""
        stems = sorted((name.removesuffix(".pkl").partition(".")[2] for name in self.files
                        if name.startswith(f"{exercise}.") and name.endswith(".pkl")), key=_likeliest_first)
        found: dict[bytes, Version] = {}
        for stem in stems:
            function = self.files[f"{exercise}.{stem}.pkl"]
            found.setdefault(function, Version(function, _WORDS.get(stem, "an earlier version of it")))
        return list(found.values())[:MOST_VERSIONS]

    def refusal(self, exercise: str) -> str:
        """Why there is none."""
        reason = self.files.get(f"{exercise}.{CHECK}.txt", b"").decode(errors="replace")[:2000]
        if reason and not reason.startswith(NOT_DEFINED):
            return reason
        return f"Nothing to judge: {'; '.join([reason or f'{NOT_DEFINED} {exercise} was handed over', *self.remarks])}."


_CHECKED = re.compile(r"\bcheck\.\w+\((\w+)\)")
_WORDS = {CHECK: "the version at its check cell", END: "the version that stood at the end of the notebook"}


def _likeliest_first(stem: str) -> tuple[int, int]:
    if stem in (CHECK, END):
        return (stem == END, 0)
    return (2, -int(stem) if stem.isdecimal() else 0)


def run_cells(steps: Sequence[Step], exercises: Sequence[Exercise], unsafe: bool = False) -> RanCells:
    """Run them in a sandbox. One that ends the kernel, or is beyond the sandbox's limits, costs only what it does itself:

    all are run again, with only the imports, functions and classes of that one. What ends a kernel may have been set going
    by an earlier cell (a timer): so if a cell ends it that has nothing else, and the last time, all cells are run with only
    theirs; and without one that ends it even so.  Raises: NoSandbox.
    """
    handed_in, steps, remarks, problems, peak_bytes = steps, list(steps), [], [], 0
    parameters = {exercise.id: exercise.parameters for exercise in exercises}
    only_definitions = False
    for start in range(MOST_STARTS):
        told = [{"source": step.source, "words": step.words, "hands_over": step.hands_over, "checks": _checked_by(step)}
                for step in steps]
        done = sandbox.run(["-m", "grader.sandbox", "cells", str(CELL_TIMEOUT_S)], parcel.to_bytes({
            "steps.json": json.dumps(told).encode(), "exercises.json": json.dumps(parameters).encode()}),
            limits=LIMITS, unsafe=unsafe, hidden=sorted({name for exercise in exercises for name in exercise.forbidden}))
        files, peak_bytes = parcel.from_bytes(done.output), max(peak_bytes, done.peak_bytes)
        said = _said(files, problems)
        problems += [done.problem] if done.problem else []
        guilty = _guilty(files, said, len(steps))
        if guilty is None:
            break
        own = [remark.removeprefix(steps[guilty].words) for remark in said if remark.startswith(steps[guilty].words)]
        why = done.problem or (f"it{own[-1]}" if own else "it ended the kernel")
        has_nothing_else = has_only_definitions(steps[guilty].source)
        if not only_definitions and (has_nothing_else or start == MOST_STARTS - 2):
            only_definitions = True
            steps = [step if step.hands_over else replace(step, source=definitions_of(step.source)) for step in handed_in]
            then = "of all cells only the imports, functions and classes were run"
        else:
            rest = "" if has_nothing_else else definitions_of(steps[guilty].source)
            steps[guilty] = replace(steps[guilty], source=rest, hands_over="")
            then = f"all cells were run again {'with only its imports, functions and classes' if rest else 'without it'}"
        if start == MOST_STARTS - 1:
            then = "the cells after it were not run"
        remarks.append(f"while {handed_in[guilty].words} ran: {why}; {then}")
    return RanCells(files, tuple([*remarks, *(remark for remark in said if remark != ENDED_KERNEL)]), tuple(problems),
                    peak_bytes)


def _checked_by(step: Step) -> str:
    """The name that a released check cell checks: reduce in check.reduce(reduce)."""
    found = _CHECKED.search(step.source)
    return found[1] if found else step.hands_over


def _said(files: Mapping[str, bytes], problems: list[str]) -> list[str]:
    """The program's own remarks; what is none becomes a problem."""
    try:
        return accept.remarks(files.get("remarks.json", b"[]"))
    except accept.Malformed as error:
        problems.append(f"its remarks were malformed: {error}")
        return []


def _guilty(files: Mapping[str, bytes], said: Sequence[str], n_steps: int) -> int | None:
    """The step in which it came to a bad end; None where it did not."""
    if "remarks.json" in files and ENDED_KERNEL not in said:
        return None
    began = [name.removeprefix("began/") for name in files if name.startswith("began/")]
    last = max((int(number) for number in began if number.isdecimal()), default=None)
    return last if last is not None and last < n_steps else None
