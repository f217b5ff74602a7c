"""`make grade`: autograde the sample submissions with the stock nbgrader command and print the marks."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from tqdm import tqdm

from grader.exercises import EXERCISES
from tests.course import SANDBOX, Course
from tests.submissions import SAMPLES, UNIT, hand_in_all


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="course-") as folder:
        print(f"Releasing {UNIT} into a course of its own and handing in {len(SAMPLES)} submissions ...", flush=True)
        if not SANDBOX:
            print("No bubblewrap here (apt install bubblewrap), so without a sandbox: the samples are our own.", flush=True)
        course = Course(Path(folder), UNIT)
        hand_in_all(course)
        times = {}
        for student in tqdm(SAMPLES, desc="nbgrader autograde", unit="submission"):
            start = time.monotonic()
            course.nbgrader("autograde", UNIT, "--student", student)
            times[student] = time.monotonic() - start
        print(table(course.marks(), times))


def table(marks: dict[str, dict[str, float]], times: dict[str, float]) -> str:
    """Exercises down, students across."""
    names = [name for name, exercise in EXERCISES.items() if exercise.unit == UNIT]
    students = list(marks)
    lines = [f"{'':28}" + "".join(f"{s:>13}" for s in students)]
    for name in names:
        lines.append(f"{name:28}" + "".join(f"{marks[s].get(name, 0):>9g}/{EXERCISES[name].max_points:<3g}"
                                            for s in students))
    lines.append(f"{'total':28}" + "".join(f"{sum(marks[s].values()):>13g}" for s in students))
    lines.append(f"{'seconds to mark':28}" + "".join(f"{times[s]:>13.0f}" for s in students))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
