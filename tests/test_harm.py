"""No submission can hold up or end a batch: what reads a student's bytes is bounded, and marking has limits of its own.

Where a limit is asserted, the kernel keeps it: the work is done in a process that would be ended at the limit.
"""

import json
from dataclasses import replace
from textwrap import dedent

import nbformat
import pytest
import torch
from nbformat.v4 import new_code_cell

from grader.course import reading
from grader.course.limited import Limits, mark_within_limits
from grader.evidence.evidence import RAISED, RETURNED, Evidence
from grader.exercises import EXERCISES
from grader.judging.judge import judge
from grader.sandbox import accept
from grader.sandbox.collect import evidence_files
from tests.course import SANDBOX, Course
from tests.submissions import SAMPLES, UNIT, replaced
from utils.trace.trace import Call, Span, Trace

EXERCISE = "ring_time"


def read(*cells: dict, **facts) -> tuple[int, str]:
    """(how many cells are read of a file, what is remarked)"""
    notebook, remarks = reading.read(json.dumps({"cells": list(cells), "nbformat": 4} | facts).encode())
    return len(notebook.cells), " ".join(remarks)


# ── reading ──


def test_a_file_has_so_many_cells_and_letters():
    empty = {"cell_type": "code", "source": "", "metadata": {}}
    assert read(*[empty] * 50_000) == (1000, "the file has 50,000 cells: those after the first 1,000 were not read")
    number, remark = read(*[empty | {"source": "#" * 300_000}] * 20)
    assert number == reading.MAX_SOURCE // 300_000 and "more than 2,097,152 characters: 14 were not read" in remark


def test_a_cells_metadata_and_so_its_name_is_short():
    long = {"cell_type": "code", "source": "", "metadata": {"nbgrader": {"grade_id": "x" * 10_000}}}
    notebook, _ = reading.read(json.dumps({"cells": [long], "nbformat": 4}).encode())
    assert notebook.cells[0].metadata == {}


# ── evidence ──

CALL = Call(0, 0, "send", "", (0, 1), 1, None, None, "float32", (1,), 4, 4, 4.0, False, 0.0, 0.1, 0.0, 0.0, 0.0, None)


def accepted(evidence: Evidence) -> Evidence:
    return accept.evidences("x", evidence_files("x", 0, evidence), cases=1)[0]


@pytest.mark.parametrize("trace, words", [
    (Trace(2, calls=(CALL,) * 20_001), "20,001 calls in one case are more than the 20,000"),
    (Trace(2, spans=(Span(0, "mine", 0.0, 0.0),) * 150_000), "150,000 marks in one case are more than the 20,000"),
], ids=["calls", "marks"])
def test_what_ranks_tell_is_counted(trace, words):
    with pytest.raises(accept.TooMuch, match=words):
        accepted(Evidence([None], RETURNED, trace))


def test_the_words_of_an_error_are_cut():
    shouted = Evidence([None], RAISED, Trace(1), error="E" * 3_000_000, error_kind="K" * 3_000_000,
                       prints={0: ["p" * 1000] * 5000})
    taken = accepted(shouted)
    assert len(taken.error) == accept.MAX_ERROR and len(taken.error_kind) == accept.MAX_KIND
    assert sum(map(len, taken.prints[0])) <= accept.MAX_PRINTED
    exercise = EXERCISES["hello_rank"]
    alone = [trial for trial in exercise.trials(0, grading=False) if trial.case.world_size == 1]
    verdict = judge(exercise, alone, [taken])
    assert len(json.dumps(verdict.record())) < 100_000


# ── judging ──


def judged(name: str, evidence_of) -> dict:
    exercise = EXERCISES[name]
    trials = exercise.trials(0, grading=False)
    return judge(exercise, trials, [evidence_of(trial) for trial in trials]).record()


def test_thousands_of_messages_are_not_put_in_order():
    def chattering(trial):
        n = trial.case.world_size
        calls = [replace(CALL, rank=i % n, peer=(i + 1) % n, number=i, op=("send", "recv")[i // n % 2],
                         members=tuple(range(n)), start_s=i * 1e-6) for i in range(3000 if n > 1 else 0)]
        return Evidence(list(trial.right), RETURNED, Trace(n, calls=tuple(calls)))

    details = [d["detail"] for case in judged("broadcast_tree", chattering)["cases"] for d in case["demands"]]
    assert any("is done in round" in detail for detail in details)


@pytest.mark.parametrize("huge", [
    lambda: torch.zeros(20_000_000, 0), lambda: [[]] * 200_000, lambda: "x" * 5_000_000, lambda: torch.zeros(5_000_000),
], ids=["rows without numbers", "parts", "letters", "numbers"])
def test_a_result_far_too_large_is_not_looked_into(huge):
    record = judged("partition_tensors", lambda trial: Evidence([huge()] * trial.case.world_size, RETURNED,
                                                                Trace(trial.case.world_size)))
    assert record["points"] == 0 and "far more than any result could be" in json.dumps(record["cases"])


# ── a batch ──

needs_sandbox = pytest.mark.skipif(not SANDBOX, reason="needs bubblewrap")
NAMED_AT_LENGTH = """
    def ring_time(*args):
        raise type("K" * 3_000_000, (Exception,), {})("E" * 3_000_000)
    """


def cells_without_end(notebook):
    notebook.cells += [new_code_cell("")] * 20_000


@needs_sandbox
@pytest.mark.timeout(600)
@pytest.mark.xdist_group("autograde")
def test_harm_in_a_batch_ends_within_its_limits_and_others_are_marked(tmp_path):
    course = Course(tmp_path, UNIT, [EXERCISE])
    course.submit("ann", SAMPLES["full"].change)
    course.submit("bob", cells_without_end)
    course.submit("cleo", replaced(EXERCISE, dedent(NAMED_AT_LENGTH)))
    brackets = tmp_path / "submitted" / "dora" / UNIT / f"{UNIT}.ipynb"
    brackets.parent.mkdir(parents=True)
    brackets.write_bytes(b'{"cells": [' + b"[]," * 1_500_000 + b"[]]}")
    course.grader("autograde", UNIT)
    full = EXERCISES[EXERCISE].max_points
    assert {student: marks[EXERCISE] for student, marks in course.marks().items()} == {
        "ann": full, "bob": full, "cleo": 0.0, "dora": 0.0}
    records = [path.stat().st_size for path in tmp_path.rglob("*.marks.json")]
    assert len(records) == 4 and max(records) < 1 << 20


@needs_sandbox
@pytest.mark.parametrize("limits, reason", [
    (Limits(memory_bytes=1 << 26), "0.0625 GiB"),
    (Limits(cpu_s=1), "more than 1 s of processor time"),
], ids=["memory", "time"])
def test_beyond_the_limits_nothing_is_earned_and_the_reason_stands(tmp_path, limits, reason):
    released = nbformat.writes(Course(tmp_path, UNIT, [EXERCISE]).skeleton).encode()
    nested = b'{"source":' * 300
    trap = b"{" + nested + b"[" + b"0," * 2_000_000
    notebook, record = mark_within_limits(trap, released, limits=limits, found=["the file is called x"])
    assert record["remarks"][0] == "the file is called x"
    assert record["exercises"][EXERCISE]["points"] == 0 and reason in json.dumps(record)
    assert nbformat.reads(notebook.decode(), as_version=4).cells


@needs_sandbox
def test_within_the_limits_a_marking_is_the_same(tmp_path):
    course = Course(tmp_path, UNIT, [EXERCISE])
    released = nbformat.writes(course.skeleton).encode()
    course.submit("ann", SAMPLES["full"].change)
    submitted = (tmp_path / "submitted" / "ann" / UNIT / f"{UNIT}.ipynb").read_bytes()
    _, record = mark_within_limits(submitted, released)
    assert record["exercises"][EXERCISE]["points"] == EXERCISES[EXERCISE].max_points and record["alarms"] == []
