"""The same marks at rest and on a busy machine: all references and twenty submissions, beside processes that spin."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat

from grader.course.limited import mark_within_limits
from tests.bench_marking import CLASS
from tests.changes import changed, right_notebook
from tests.course import ROOT, Course
from tests.submissions import CHOSEN, UNIT, slip

SPINNING_A_CORE = 15
AT_ONCE = 6  # more than cores: beside so many others each gets little
CHANGED = ("draft_below", "helper_below", "import_in_the_set_up_cell", "kernel_killed", "sleeps_in_the_solution_cell",
           "split_within_the_function", "from_colab", "torn")
SLIPPED = ("02_data_parallel", "04_zero2", "09_putting_together", "11_planner")

Submission = tuple[bytes, bytes]  # what was handed in, what was released


def bench_load(line: Callable) -> None:
    """Marks at rest, then beside SPINNING_A_CORE processes on each core."""
    submissions = dict(_submissions())
    quiet, quiet_s = _marked(submissions)
    with _spinning():
        busy, busy_s = _marked(submissions)
    differ = [name for name in submissions if busy[name] != quiet[name]]
    for name in differ:
        print(f"     {name}: at rest {quiet[name]}, on the busy machine {busy[name]}")
    spinning = SPINNING_A_CORE * (os.cpu_count() or 1)
    line(f"marks that differ beside {spinning} spinning processes, of {len(submissions)} submissions", len(differ), "= 0",
         not differ, f"{quiet_s:.0f} s at rest, {busy_s:.0f} s beside them")


def _submissions() -> Iterator[tuple[str, Submission]]:
    """The reference of every unit; one of each kind of the class that is marked for speed; changed and wrong notebooks."""
    for unit in sorted(path.name for path in (ROOT / "notebooks").iterdir() if path.is_dir()):
        yield f"reference of {unit}", (json.dumps(right_notebook(unit)).encode(), _released(unit))
    with tempfile.TemporaryDirectory(prefix="course-") as folder:
        course = Course(Path(folder), UNIT, CHOSEN)
        release = (course.root / "notebooks" / UNIT / f"{UNIT}.ipynb").read_bytes()
        for name, (_, sample) in CLASS.items():
            course.submit(name, sample.change, sample.filled_in)
            yield name, ((course.root / "submitted" / name / UNIT / f"{UNIT}.ipynb").read_bytes(), release)
    for name in CHANGED:
        yield f"00, {name}", (changed("00_start_here", (name,), "speak_in_order").content(), _released("00_start_here"))
    for unit in SLIPPED:
        notebook = nbformat.from_dict(right_notebook(unit))
        slip(unit)(notebook)
        yield f"{unit}, a slip", (nbformat.writes(notebook).encode(), _released(unit))


def _released(unit: str) -> bytes:
    return (ROOT / "notebooks" / unit / f"{unit}.ipynb").read_bytes()


def _marked(submissions: dict[str, Submission]) -> tuple[dict[str, dict[str, float]], float]:
    """(points by submission and exercise, seconds)"""
    began = time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        records = [record for _, record in pool.map(lambda pair: mark_within_limits(*pair), submissions.values())]
    points = [{name: verdict["points"] for name, verdict in record["exercises"].items()} for record in records]
    return dict(zip(submissions, points, strict=True)), time.monotonic() - began


@contextlib.contextmanager
def _spinning() -> Iterator[None]:
    """Each in a session of its own, as the system's scheduler shares out processors by session."""
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)
                for _ in range(SPINNING_A_CORE * (os.cpu_count() or 1))]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()
