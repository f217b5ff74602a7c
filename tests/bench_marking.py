"""Marking twenty submissions against stock nbgrader with checks that spawn their ranks; and what bombs cost."""

import contextlib
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import psutil

from grader.course.splice import is_check, name_of
from tests.course import Course
from tests.submissions import CHOSEN, SAMPLES, UNIT, Sample, replaced
from tests.test_bombs import BOMBS
from tests.test_bombs import EXERCISE as BOMBED

# kind -> (how many of the twenty, what they hand in)
CLASS: dict[str, tuple[int, Sample]] = {
    "right": (8, SAMPLES["full"]),
    "wrong": (4, SAMPLES["partial"]),
    "blank": (2, SAMPLES["blank"]),
    "crashing": (2, SAMPLES["raising"]),
    "deadlock": (1, SAMPLES["deadlocking"]),
    "deadlock-in-pairs": (1, Sample(replaced("ring_all_gather", """
        def ring_all_gather(x_C, group):
            n, r = dist.get_world_size(group), dist.get_rank(group)
            rows = [x_C] * n
            if n > 1:
                dist.recv(rows[0], group=group, group_src=r ^ 1)
            return torch.stack(rows)
        """), filled_in=False)),
    "deadlock-on-one-rank": (1, Sample(replaced("ring_all_reduce", """
        def ring_all_reduce(x, group):
            if dist.get_rank(group) == 0:
                return x
            dist.all_reduce(x, group=group)
            return x
        """), filled_in=False)),
    "endless-loop": (1, SAMPLES["looping"]),
}


CELL_TIMEOUT_S = 120  # nbgrader's own is 30 s, in which the larger checks of a right submission are not done
STAMP = "MARKING_BENCH"


class StockCourse(Course):
    """The same unit under nbgrader as it comes, with checks that call torch.multiprocessing.spawn."""

    def configure(self) -> None:
        """Other check cells, and none of our steps."""
        for cell in self.solution.cells:
            if is_check(cell):
                name = name_of(cell).removesuffix("_check")
                cell.source = f'from tests.spawn_checks import check_with_spawn\ncheck_with_spawn("{name}", {name})'
        (self.root / "nbgrader_config.py").write_text(
            'c = get_config()\nc.CourseDirectory.source_directory = "solutions"\n'
            'c.CourseDirectory.release_directory = "notebooks"\n'
            f'c.Execute.timeout = {CELL_TIMEOUT_S}\n')

    def environment(self) -> dict[str, str]:
        """With a stamp by which `end_what_is_left` knows what this course started."""
        return {**super().environment(), STAMP: str(self.root)}

    def end_what_is_left(self) -> None:
        """Ranks that hang outlive stock nbgrader's kernels; they must not slow what is timed next."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(STAMP) == str(self.root):
                    process.kill()


def bench_marking(line: Callable) -> None:
    """Twenty submissions of two exercises: `python -m grader autograde` against stock nbgrader with mp.spawn."""
    with tempfile.TemporaryDirectory(prefix="course-") as folder:
        ours_s, course = _ours(Path(folder) / "ours")
        together = course.marks()
        for kind in reversed(CLASS):
            course.program("grader", "autograde", UNIT, "--student", f"{kind}-0", "--workers", "1", "--regrade", "--yes")
        same = course.marks() == together
        line("marks of each kind: alone, in the opposite order / in parallel", float(same), "= 1", same)
        stock_s = _stock(Path(folder) / "stock")
    line("stock nbgrader with mp.spawn / ours, 20 submissions", stock_s / ours_s, ">= 15", stock_s / ours_s >= 15,
         f"{stock_s:.0f} s against {ours_s:.0f} s")


def _ours(folder: Path) -> tuple[float, Course]:
    """(seconds for all, the course)"""
    course = Course(folder, UNIT, CHOSEN)
    for kind, (count, sample) in CLASS.items():
        for number in range(count):
            course.submit(f"{kind}-{number}", sample.change, sample.filled_in)
    began = time.monotonic()
    printed = course.program("grader", "autograde", UNIT)
    seconds = time.monotonic() - began
    print("     " + next(text for text in printed.splitlines() if "Peak memory" in text), flush=True)
    return seconds, course


def _stock(folder: Path) -> float:
    """Seconds for all: nbgrader marks one after the other, so one of each kind is timed and counts for all its like."""
    course, total_s = StockCourse(folder, UNIT, CHOSEN), 0.0
    for kind, (count, sample) in CLASS.items():
        course.submit(kind, sample.change, sample.filled_in)
        began = time.monotonic()
        try:
            course.nbgrader("autograde", UNIT, "--student", kind)
            marks = f"{sum(course.marks()[kind].values()):g} points"
        except subprocess.CalledProcessError:  # it gives up on a kernel that says nothing for so long
            marks = "not marked"
        seconds = time.monotonic() - began
        course.end_what_is_left()
        total_s += count * seconds
        print(f"     stock nbgrader, {kind:<22} {seconds:6.0f} s, {count} of 20; {marks}", flush=True)
    return total_s


def bench_bombs(line: Callable) -> None:
    """How long starting a program takes while bombs are being marked, against while honest submissions are."""
    with tempfile.TemporaryDirectory(prefix="course-") as folder:
        course = Course(Path(folder), UNIT, [BOMBED])
        for number in range(2 * len(BOMBS)):
            course.submit(f"honest-{number}", SAMPLES["full"].change)
        for name, source in BOMBS.items():
            course.submit(f"bomb-{name}", replaced(BOMBED, source))
        quiet = _starts_while(lambda: course.program("grader", "autograde", UNIT, "--student", "honest-*"))
        under_fire = _starts_while(lambda: course.program("grader", "autograde", UNIT, "--student", "bomb-*"))
    for word, of in (("median", median), ("slowest", max)):
        ratio = of(under_fire) / of(quiet)
        line(f"starting a program while bombs are marked / honest ones, {word}", ratio, "<= 5", ratio <= 5,
             f"{of(under_fire) * 1000:.0f} ms against {of(quiet) * 1000:.0f} ms")


def _starts_while(work: Callable[[], object]) -> list[float]:
    """Seconds that `true` takes, again and again until `work` is done."""
    thread = threading.Thread(target=work)
    thread.start()
    times = []
    while thread.is_alive():
        began = time.perf_counter()
        subprocess.run(["true"], check=True)
        times.append(time.perf_counter() - began)
        time.sleep(0.05)
    thread.join()
    return times
