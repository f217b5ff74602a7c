"""`make grade`: autograde the sample submissions of a unit with the stock nbgrader command and print the marks."""

import argparse
import tempfile
import time
from pathlib import Path

from tqdm import tqdm

from grader.exercises import EXERCISES
from tests.course import SANDBOX, Course
from tests.submissions import SLIPS, UNIT, hand_in, samples_of


def main() -> None:
    parser = argparse.ArgumentParser(prog="make grade", description=__doc__)
    parser.add_argument("unit", nargs="?", default=UNIT, choices=(UNIT, *SLIPS), help="make grade ARGS=05_zero3, for one")
    unit = parser.parse_args().unit
    students = samples_of(unit)
    with tempfile.TemporaryDirectory(prefix="course-") as folder:
        print(f"Releasing {unit} into a course of its own and handing in {len(students)} submissions ...", flush=True)
        if not SANDBOX:
            print("No bubblewrap here (apt install bubblewrap), so without a sandbox: the samples are our own.", flush=True)
        course = Course(Path(folder), unit)
        hand_in(course, students)
        times = {}
        for student in tqdm(students, desc="nbgrader autograde", unit="submission"):
            start = time.monotonic()
            course.nbgrader("autograde", unit, "--student", student)
            times[student] = time.monotonic() - start
        print(table(unit, course.marks(), times))


def table(unit: str, marks: dict[str, dict[str, float]], times: dict[str, float]) -> str:
    """Exercises down, students across."""
    names = [name for name, exercise in EXERCISES.items() if exercise.unit == unit]
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
