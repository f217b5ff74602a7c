"""Mark one notebook: run its cells, collect evidence of each exercise's function, judge, write the verdicts into it.

Student code runs in two sandboxes, one after the other: a kernel that runs the cells and hands the functions over, then
ranks that run the functions. Cases, oracles and judge stay outside.
"""

import secrets
import time
import traceback
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_output

from grader.calling.collect import Candidate
from grader.calling.handing_out import Given, given
from grader.course import feedback
from grader.course.again import ANEW, Again
from grader.course.alarms import CONTAINED, CONTRADICTED, MALFORMED, OTHER, RENAMED, Alarm
from grader.course.cell import exercise_of, is_check, language_of, nbgrader_of
from grader.course.handed_in import HandedIn, about_others, read_all, to_be_marked
from grader.course.running import RanCells, Version, run_cells
from grader.course.second_look import LONGER, in_doubt, later, put_in, too_busy
from grader.course.splice import Step, steps_of
from grader.course.suspicion import suspicions
from grader.evidence import parcel
from grader.evidence.evidence import Evidence
from grader.evidence.traffic import NETWORK_DEMAND
from grader.exercises import EXERCISES
from grader.judging.demands import HIDDEN_DEMAND
from grader.judging.exercise import Exercise, Trial
from grader.judging.judge import judge
from grader.judging.verdict import Verdict
from grader.sandbox import accept
from grader.sandbox import bubblewrap as sandbox
from grader.sandbox.collect import job_files
from utils.languages.choice import speaking

RANKS_LIMITS = sandbox.Limits(wall_s=1800.0)
OUTPUT_BYTES = 16 << 20  # of all cells together
SUSPICIONS = 100  # of which a person is told
PATIENCE = 2  # times an exercise's own time limit: marking must not depend on how busy the machine is
NOT_INSTALLED = ("{} stopped with “{}”. Where notebooks are marked, only what the course installs can be imported, and "
                 "modules that the notebook itself writes")
WITHDRAWN = "Withdrawn: it counts 0 of 0 points."
TOO_BUSY = ("{}: what it lacks was decided by a clock, twice, and the machine was too busy to tell. Mark it again when less "
            "is going on: --regrade")
FOR_A_PERSON = {NETWORK_DEMAND: (CONTRADICTED, "the network contradicts the calls"),
                HIDDEN_DEMAND: (OTHER, "memory was held where no tensor is")}  # demands whose hint sends for one

Marked = tuple[bytes, dict[str, Any]]  # a marked notebook and its record


@dataclass
class Marks:
    """The judge's record of one notebook.

    remarks: what else a reader of the feedback should know. alarms: what a person who marks should look at. too_busy:
    exercises that lack points by a clock, on a machine that was too busy to tell. seeds: of exercises whose cases are drawn
    from another number than `seed`. counts: the file among several notebooks that was marked, "" for the first.
    """

    seed: int
    seeds: Mapping[str, int] = field(default_factory=dict)
    counts: str = ""
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    alarms: list[Alarm] = field(default_factory=list)
    too_busy: list[str] = field(default_factory=list)
    peak_bytes: int = 0
    seconds: float = 0.0

    def alarm(self, kind: str, exercise: str, text: str) -> None:
        self.alarms.append(Alarm(kind, f"{exercise}: {text}", exercise))

    def note(self, done: sandbox.Finished, what: str) -> None:
        """What a sandbox used up, and why it was ended, if it was."""
        self.peak_bytes = max(self.peak_bytes, done.peak_bytes)
        if done.problem:
            self.remarks.append(f"while the {what} ran: {done.problem}")
            self.alarms.append(Alarm(CONTAINED, f"contained while the {what} ran: {done.problem}"))

    def note_cells(self, ran: RanCells) -> None:
        """The same of the cells."""
        self.peak_bytes = max(self.peak_bytes, ran.peak_bytes)
        self.remarks += [remark for remark in ran.remarks if remark not in self.remarks]
        self.alarms += [Alarm(CONTAINED, f"contained while the cells ran: {problem}") for problem in ran.problems]

    @property
    def full(self) -> bool:
        return all(verdict.passed or not verdict.max_points for verdict in self.verdicts.values())

    @property
    def points(self) -> float:
        return sum(verdict.points for verdict in self.verdicts.values())

    def record(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {"seed": self.seed, "seeds": dict(self.seeds), "counts": self.counts, "remarks": self.remarks,
                "alarms": [asdict(alarm) for alarm in self.alarms],
                "peak_bytes": self.peak_bytes, "seconds": self.seconds, "too_busy": self.too_busy,
                "exercises": {name: verdict.record() for name, verdict in self.verdicts.items()}}


def mark_notebook(notebook: NotebookNode, unsafe: bool = False,
                  known: Mapping[str, Exercise] = EXERCISES, orders: Sequence[Sequence[Step]] = (),
                  again: Again = ANEW, lost: Mapping[str, str] = MappingProxyType({})) -> Marks:
    """Judge every exercise that `notebook` has a check cell for, and put the verdicts into those cells' outputs.

    unsafe: without a sandbox, on the caller's own risk. known: the exercises that check cells may name. orders: in which its
    cells can be run, the likeliest first, see grader.course.splice; from top to bottom unless given. For exercises that do
    not earn everything, other versions of their functions and other orders are tried, and the best counts. again: which
    exercises, and what their cases are drawn from, if not all from a fresh number; that is recorded. lost: exercises that
    the file has nothing of, and why.
    Raises: NoSandbox.
    """
    if not unsafe:
        sandbox.require()
    began = time.monotonic()
    marks = Marks(secrets.randbits(32) if again.seed is None else again.seed, again.seeds)
    exercises = [known[name] for cell in notebook.cells
                 if is_check(cell) and (name := exercise_of(cell)) in known and again.asks_for(name)]
    trying = Trying(marks, unsafe)
    for number, steps in enumerate(orders or [steps_of(notebook)]):
        lacking = [exercise for exercise in exercises if exercise.max_points and exercise.id not in lost
                   and not trying.is_full(exercise)]
        if lacking:
            ran = run_cells(steps, lacking, unsafe)
            marks.note_cells(ran)
            if number == 0:
                _show_outputs(notebook, steps, ran.files, marks)
            trying.try_on(lacking, ran, "" if number == 0 else "its cells run in the order in which they were handed in")
    for exercise in exercises:
        untried = Verdict.without_evidence(exercise, lost.get(exercise.id, WITHDRAWN))
        verdict = marks.verdicts[exercise.id] = trying.best.get(exercise.id, untried)
        for demand_id, (kind, words) in FOR_A_PERSON.items():
            details = [demand.detail for case in verdict.cases for demand in case.demands
                       if demand.id == demand_id and not demand.met]
            if details:  # one alarm an exercise
                marks.alarm(kind, exercise.id, f"{words}: {details[0]}")
    _show_verdicts(notebook, marks)
    marks.alarms += [Alarm(OTHER, TOO_BUSY.format(name), name) for name in marks.too_busy]
    marks.seconds = time.monotonic() - began
    return marks


def _show_verdicts(notebook: NotebookNode, marks: Marks) -> None:
    """In the check cells what the student may see, in the notebook's language; the record has all of it, in English."""
    for cell in notebook.cells:
        verdict = marks.verdicts.get(exercise_of(cell))
        if is_check(cell) and verdict is not None:
            with speaking(language_of(notebook)):
                data = {"text/plain": feedback.as_text(verdict), "text/html": feedback.as_html(verdict)}
            cell.outputs = [new_output("display_data", data)]


def mark_submission(submitted: bytes, released: bytes, unsafe: bool = False,
                    known: Mapping[str, Exercise] = EXERCISES, others: Sequence[tuple[str, bytes]] = (),
                    found: Sequence[str] = (), again: Again = ANEW, called: str = "") -> Marked:
    """(the marked notebook, the record) of a submitted file, whatever is in it, against the released one.

    others: (name, content) of further notebooks that were handed in with it, the newest first; of several with work in
    them, the best counts. found: what was odd about the files, in words. again: as mark_notebook's. called: what the student
    called the submitted file.
    A pure function but for a fresh seed: it needs no folder and no gradebook.  Raises: NoSandbox.
    """
    release = nbformat.reads(released.decode(), as_version=4)
    known = with_points_of(release, known)
    handed_in = read_all(submitted, others, release, {exercise.id: exercise.unit for exercise in EXERCISES.values()},
                         called)
    marked: list[tuple[HandedIn, Marks]] = []
    for one in [one for one in handed_in if one.name == again.counts] or to_be_marked(handed_in):
        if one.nothing_of_the_unit:
            marks = _nothing_to_judge(one, known)
        else:
            marks = mark_notebook(one.spliced.notebook, unsafe, known, one.spliced.orders, again, one.lost)
        marked.append((one, marks))
        if marks.full:
            break
    chosen, marks = max(marked, key=lambda pair: pair[1].points)
    others = about_others(handed_in, chosen, {one.name: each.points for one, each in marked}) if again.counts is None else []
    odd = [*found, *others, *chosen.wrong]
    marks.counts = chosen.name
    marks.remarks[:0] = [*odd, *(() if chosen.nothing_of_the_unit else chosen.spliced.remarks)]
    told = [*found, *chosen.wrong] if marks.full else odd  # no other notebook could have earned more
    marks.alarms += [Alarm(OTHER, text) for text in told if not text.startswith(RENAMED)]
    if not chosen.nothing_of_the_unit:  # another unit's own cells would be told, and nothing of it runs
        marks.alarms += suspicions(chosen.notebook, release)[:SUSPICIONS]
    notebook = chosen.spliced.notebook
    if marks.remarks:
        with speaking(language_of(notebook)):
            notebook.cells.insert(0, feedback.remarks_cell(marks.remarks))
    return nbformat.writes(notebook).encode(errors="replace"), marks.record()  # of half a character a "?"


def with_points_of(release: NotebookNode, known: Mapping[str, Exercise]) -> dict[str, Exercise]:
    """The exercises with the points that their checks have in the released notebook."""
    asked = {exercise_of(cell): nbgrader_of(cell).get("points") for cell in release.cells if is_check(cell)}
    return dict(known) | {name: known[name].with_points(points) for name, points in asked.items()
                          if name in known and isinstance(points, (int, float)) and points != known[name].max_points}


def _nothing_to_judge(handed_in: HandedIn, known: Mapping[str, Exercise]) -> Marks:
    """Of a file that is no notebook, or another unit's: each exercise says so."""
    marks = Marks(0)
    why = f"Nothing to judge: {handed_in.nothing_of_the_unit}."
    for name in [exercise_of(cell) for cell in handed_in.spliced.notebook.cells if is_check(cell)]:
        if name in known:
            marks.verdicts[name] = Verdict.without_evidence(known[name], why)
    _show_verdicts(handed_in.spliced.notebook, marks)
    return marks


def left_unmarked(released: bytes, why: str) -> Marked:
    """What stands for the marking of a submission that could not be marked: the released notebook, and no points."""
    notebook, marks = nbformat.reads(released.decode(), as_version=4), Marks(0)
    marks.alarms.append(Alarm(CONTAINED, f"contained: {why}"))
    known = with_points_of(notebook, EXERCISES)
    for name in [exercise_of(cell) for cell in notebook.cells if is_check(cell)]:
        marks.verdicts[name] = Verdict.without_evidence(known[name], f"Not marked: {why}.")
    return released, marks.record()


class Trying:
    """Versions of functions, tried one after the other until an exercise has all its points; the best verdict counts."""

    def __init__(self, marks: Marks, unsafe: bool):
        self._marks, self._unsafe = marks, unsafe
        self.best: dict[str, Verdict] = {}
        self._trials: dict[str, Sequence[Trial]] = {}
        self._tried: dict[str, set[bytes]] = defaultdict(set)

    def is_full(self, exercise: Exercise) -> bool:
        return exercise.id in self.best and self.best[exercise.id].passed

    def try_on(self, exercises: Sequence[Exercise], ran: RanCells, other_order: str) -> None:
        """What a run of the cells handed over. other_order: in words, why it is another than that of the run before."""
        versions = {exercise.id: [version for version in ran.versions(exercise.id)
                                  if version.function not in self._tried[exercise.id]] for exercise in exercises}
        while todo := [exercise for exercise in exercises if versions[exercise.id] and not self.is_full(exercise)]:
            versions_now = {exercise.id: versions[exercise.id].pop(0) for exercise in todo}
            self._try(todo, versions_now, other_order)
        for exercise in exercises:
            if exercise.id not in self.best:
                self.best[exercise.id] = Verdict.without_evidence(exercise, ran.refusal(exercise.id))

    def _try(self, exercises: Sequence[Exercise], versions: Mapping[str, Version], other_order: str) -> None:
        for exercise in exercises:
            self._tried[exercise.id].add(versions[exercise.id].function)
            if exercise.id not in self._trials:
                self._trials[exercise.id] = exercise.trials(
                    self._marks.seeds.get(exercise.id, self._marks.seed), grading=True)
        functions = {exercise.id: versions[exercise.id].function for exercise in exercises}
        verdicts = self.verdicts(exercises, functions)
        for exercise in exercises:
            verdict, before = verdicts[exercise.id], self.best.get(exercise.id)
            if before is None or verdict.points > before.points:
                self.best[exercise.id] = verdict
                if before is not None:
                    why = other_order or versions[exercise.id].words
                    self._marks.remarks.append(
                        f"the solution {exercise.id} earns more with {why} than with what stood at its check cell, so that "
                        f"counts: {verdict.points:g} points, not {before.points:g}")

    def verdicts(self, exercises: Sequence[Exercise], functions: Mapping[str, bytes]) -> dict[str, Verdict]:
        """After a second look at what a clock decides, before it costs points."""
        cases = {exercise.id: [given(exercise.caller, trial.case) for trial in self._trials[exercise.id]]
                 for exercise in exercises}
        files, problem = _run_functions(exercises, cases, functions, self._marks, self._unsafe)
        seen = {exercise.id: _seen(exercise, cases[exercise.id], files, problem, self._marks) for exercise in exercises}
        verdicts = {exercise.id: _verdict(exercise, self._trials[exercise.id], seen[exercise.id], self._marks)
                    for exercise in exercises}
        doubtful = {exercise.id: numbers for exercise in exercises
                    if (numbers := in_doubt(verdicts[exercise.id], self._trials[exercise.id], seen[exercise.id]))}
        if not doubtful:
            return verdicts
        asked = [exercise for exercise in exercises if exercise.id in doubtful]
        patient = [replace(exercise, timeout_s=LONGER * exercise.timeout_s) for exercise in asked]
        again = {exercise.id: [later(cases[exercise.id][number]) for number in doubtful[exercise.id]] for exercise in asked}
        files, problem = _run_functions(patient, again, functions, self._marks, self._unsafe)
        for exercise in asked:
            trials = self._trials[exercise.id]
            anew = _seen(exercise, again[exercise.id], files, problem, self._marks)
            evidences = put_in(seen[exercise.id], doubtful[exercise.id], anew)
            verdicts[exercise.id] = verdict = _verdict(exercise, trials, evidences, self._marks)
            if not verdict.passed and too_busy(anew) and exercise.id not in self._marks.too_busy:
                self._marks.too_busy.append(exercise.id)
        return verdicts


def _show_outputs(notebook: NotebookNode, steps: Sequence[Step], files: Mapping[str, bytes], marks: Marks) -> None:
    """What the cells wrote, into the notebook."""
    room = OUTPUT_BYTES
    try:
        for number, step in enumerate(steps):
            content = files.get(f"outputs/{number}.json", b"[]")
            room -= len(content)
            if step.index is not None and not step.hands_over and room >= 0:
                outputs = notebook.cells[step.index].outputs = accept.outputs(content)
                marks.remarks += [NOT_INSTALLED.format(step.words, output.evalue[:100]) for output in outputs
                                  if output.get("ename") == "ModuleNotFoundError"]
        if room < 0:
            marks.remarks.append(f"the cells wrote more than {OUTPUT_BYTES >> 20} MiB in all: only the beginning was kept")
    except accept.Malformed as error:
        marks.remarks.append(f"the cells' outputs were not used: {error}")
        marks.alarms.append(Alarm(MALFORMED, f"malformed outputs of cells: {error}"))


def _run_functions(exercises: Sequence[Exercise], cases: Mapping[str, Sequence[Given]], functions: Mapping[str, bytes],
                   marks: Marks, unsafe: bool) -> tuple[dict[str, bytes], str]:
    """(files of evidence, what went wrong with the ranks' program, if anything)"""
    files: dict[str, bytes] = {}
    for exercise in exercises:
        candidate = Candidate(functions[exercise.id], PATIENCE * exercise.timeout_s, exercise.trains,
                              exercise.measured, exercise.caller, exercise.forbidden)
        files |= job_files(exercise.id, candidate, cases[exercise.id])
    program = ["-m", "grader.sandbox", "collect", *([] if unsafe else ["--isolated"])]
    callers = {exercise.caller for exercise in exercises if exercise.caller.startswith("exercises/")}
    done = sandbox.run(program, parcel.to_bytes(files), RANKS_LIMITS, may_isolate=True, unsafe=unsafe,
                       code=[f"grader/{caller}" for caller in callers])
    marks.note(done, "functions")
    if done.problem and done.log:  # not for the feedback: ranks can make a program say what their inputs were
        marks.alarms.append(Alarm(OTHER, f"the functions' program said: {done.log[-500:].strip()}"))
    return parcel.from_bytes(done.output), done.problem


def _seen(exercise: Exercise, cases: Sequence[Any], files: Mapping[str, bytes], problem: str, marks: Marks,
          ) -> list[Evidence] | str:
    """The evidence of an exercise's cases; or in words, why there is none that can be judged."""
    try:
        evidences = accept.evidences(exercise.id, files, len(cases))
    except accept.TooMuch as error:
        marks.alarm(OTHER, exercise.id, str(error))
        return f"Not judged: {error}. Is a call in a loop that should stand before it?"
    except accept.Malformed as error:
        marks.alarm(MALFORMED, exercise.id, f"malformed evidence: {error}")
        return "The ranks' evidence was not accepted."
    return evidences or f"Nothing to judge: {problem or 'the ranks left nothing'}."


def _verdict(exercise: Exercise, trials: Sequence[Trial], seen: list[Evidence] | str, marks: Marks) -> Verdict:
    if isinstance(seen, str):
        return Verdict.without_evidence(exercise, seen)
    if any(evidence.messages and not evidence.messages.complete for evidence in seen):
        marks.alarm(OTHER, exercise.id, "the network could not be read in full, so calls were held against totals only")
    if any(trial.case.weighed and evidence.loopback_bytes is not None and evidence.weights is None
           for trial, evidence in zip(trials, seen, strict=False)):
        marks.alarm(OTHER, exercise.id, "the memory of its ranks could not be read from outside, so it was not judged by it")
    try:
        return judge(exercise, trials, seen)
    except Exception as error:  # evidence that is well formed and yet makes no sense; nothing earned, and a reason
        where = traceback.extract_tb(error.__traceback__)[-1]
        marks.alarm(MALFORMED, exercise.id, f"evidence makes no sense: {type(error).__name__}: {error!s:.300}")
        return Verdict.without_evidence(exercise, f"What the ranks left makes no sense to the judge ({where.name}).")
