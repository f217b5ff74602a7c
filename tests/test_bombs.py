"""Bombs among honest submissions: nobody else's marks change, nothing is left behind, and the report names them."""

import csv
import os
import re
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from tests.course import SANDBOX, Course
from tests.submissions import SAMPLES, UNIT, replaced

pytestmark = [pytest.mark.xdist_group("bombs"), pytest.mark.timeout(1200), pytest.mark.long,
              pytest.mark.skipif(not SANDBOX, reason="needs bubblewrap")]
EXERCISE = "ring_time"
HONEST = 5
BOMBS = {  # first those that take longest until they are ended
    "flood": """
        while True:
            print("y" * 100_000, flush=True)
        def ring_time(*args):
            pass
        """,
    "loop": """
        def ring_time(*args):
            import time
            while True:
                time.sleep(0.01)
        """,
    "memory": """
        import mmap
        def ring_time(*args):
            hoard = []
            while True:
                hoard.append(mmap.mmap(-1, 256 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
                hoard[-1].madvise(23)  # MADV_POPULATE_WRITE: the kernel fills them, quickly, also where others are at work
        """,
    "forks": """
        import os
        def ring_time(*args):
            while True:
                try:
                    os.fork()
                except OSError:
                    pass
        """,
    "disk": """
        def ring_time(*args):
            for folder in ("/tmp", "/dev/shm", "."):
                try:
                    with open(folder + "/filler", "wb") as file:
                        while True:
                            file.write(b"x" * (16 << 20))
                except OSError:
                    pass
            raise OSError("no more room")
        """,
}

TOLD = {  # in the report; where other markings are at work beside, time may run out before 4 GiB are full
    "flood": "while the cells ran|not done after", "loop": "never ends", "memory": "more than 4 GiB of memory|never ends",
    "forks": "more than (100|400) processes", "disk": "no more room",
}


def test_bombs_among_honest_submissions(tmp_path):
    course = Course(tmp_path, UNIT, [EXERCISE])
    for number in range(HONEST):
        course.submit(f"honest{number:02}", SAMPLES["full"].change)
    for number, (name, source) in enumerate(BOMBS.items()):
        course.submit(f"honest{number:02}-{name}", replaced(EXERCISE, source))  # spread among the others
    room_before = os.statvfs("/tmp").f_bavail
    printed, started = _watched(lambda: course.program("grader", "autograde", UNIT))
    marks = course.marks()
    bombs = {student for student in marks if "-" in student}
    assert len(bombs) == len(BOMBS) and len(marks) == HONEST + len(BOMBS)
    assert all(marks[student] == {EXERCISE: 0.0} for student in bombs)
    full = max(marks["honest00"].values())
    assert full > 0 and all(marks[student] == {EXERCISE: full} for student in marks if student not in bombs)
    assert f"{HONEST + len(BOMBS)} marked" in printed
    assert psutil.wait_procs(started, timeout=30)[1] == []
    assert room_before - os.statvfs("/tmp").f_bavail < (256 << 20) // os.statvfs("/tmp").f_frsize
    rows = _reported(course)
    for student in bombs:
        assert re.search(TOLD[student.rpartition("-")[2]], rows[student]), rows[student]


def test_who_fills_the_memory_is_told_how_much_there_was(tmp_path):
    course = Course(tmp_path, UNIT, [EXERCISE])
    course.submit("hoard", replaced(EXERCISE, BOMBS["memory"]))
    course.program("grader", "autograde", UNIT)
    assert "more than 4 GiB of memory" in _reported(course)["hoard"]


def _reported(course: Course) -> dict[str, str]:
    """Student → the report's row."""
    course.grader("report", UNIT)
    with (course.root / "reports" / UNIT / "submissions.csv").open(newline="") as file:
        return {row["student"]: str(row) for row in csv.DictReader(file)}


def _watched(work):
    """(what `work` returns, every process that was seen to be started by it)"""
    here, seen = psutil.Process(), set()
    before = set(here.children(recursive=True))
    with ThreadPoolExecutor(1) as pool:
        doing = pool.submit(work)
        while not doing.done():
            seen |= set(here.children(recursive=True)) - before
            time.sleep(0.2)
        return doing.result(), seen
