"""Write the students' archive: notebooks, utils, public checks; no solutions, oracles or hidden cases (`make bundle`)."""

import datetime
import io
import multiprocessing
import os
import re
import sys
import tarfile
import tomllib
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch
from tqdm import tqdm

from grader import hunt, standing
from grader.checks import PUBLIC_SEED
from grader.course.assign import RELEASED
from grader.course.course_file import NAME, BadCourseFile, CourseFile, course_if_any
from grader.course.release import worked_in
from grader.exercises import EXERCISES, UNITS, stored
from utils.languages.choice import ENGLISH
from utils.ranks.fair_clock import processors

ROOT = Path(__file__).resolve().parents[2]
TOP = "many-ranks-one-loss"
OPENED = "00_start_here"  # where our own Makefile opens JupyterLab
EXAMPLE = "01_collectives"  # a unit that the students' README names
CORE_PATH, ASSIGNED = "what the core path asks for", "what your instructor assigns"  # in the students' README
HOURS = " Through all units it takes about twelve hours."
PAGES = ("docs/glossary.md", "docs/notation.md", "docs/planner_accuracy.md")  # that notebooks link to
TOOLS = ("tools/requirements.py", "tools/locked/course.txt", "tools/first_cell.py", "tools/works_here.py",
         "tools/slurm_job.sh")
LAB_CONFIG = [f"tools/labconfig/{name}.json" for name in ("page_config", "default_setting_overrides", "first_look")]
TARGETS = ("help", "lab", "clean")
PIP_SECTIONS = ("# for the course", "# last: the project itself")
PROJECT_TABLES = ("[build-system]", "[project]", "[tool.setuptools")
UTILS_SUFFIXES = (".py", ".csv", ".md", ".txt", ".html")
# Of grader: what judges and how functions are called; of an exercise no more than its technique, and its data.
CHECKS = ("__init__.py", "checks.py", "contracts.py", "hunt.py", "not_written.py", "standing.py", "standing.html",
          "evidence/*.py", "calling/*.py", "judging/*.py", "judging/*.html", "exercises/__init__.py", "exercises/stored.py",
          "exercises/technique/*.py", "exercises/[0-9]*/__init__.py", "exercises/[0-9]*/*/technique.py",
          "exercises/[0-9]*/*/call.py", "exercises/hints.toml", "exercises/[0-9]*/*/hints.toml")


def files(course: CourseFile | None = None) -> dict[str, bytes]:
    """Everything in the archive, by its path below the top folder. course: what is assigned; all, if there is none."""
    texts = {
        "README.md": students_readme(_text("grader/bundle/for_students.md"), course),
        "environment.yml": students_environment(_text("environment.yml")),
        "Makefile": students_makefile(_text("Makefile"), course),
        "pyproject.toml": students_project(_text("pyproject.toml")),
        **{name: _text(name) for name in (*TOOLS, *PAGES, *LAB_CONFIG)},
    }
    utils = [path.relative_to(ROOT) for path in (ROOT / "utils").rglob("*") if path.suffix in UTILS_SUFFIXES]
    texts |= {path.as_posix(): _text(path) for path in utils}
    texts |= languages(course) | notebooks(course) | checks(course)
    return {name: text.encode() for name, text in texts.items()} | case_data(course)


def version() -> str:
    """The course's, and the day: today, or that of SOURCE_DATE_EPOCH, by which an archive can be made again to the byte."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    day = datetime.datetime.fromtimestamp(int(seconds), datetime.UTC).date() if seconds else datetime.date.today()
    return f"{tomllib.loads(_text('pyproject.toml'))['project']['version']}-{day}"


def write(archive: Path, course: CourseFile | None = None) -> None:
    """Write the archive; the same files on the same day make the same bytes. Its folder has the version in its name.

    (xz, because big cases of many exercises share numbers.)
    """
    archive.parent.mkdir(parents=True, exist_ok=True)
    now = version()
    with tarfile.open(archive, "w:xz", format=tarfile.GNU_FORMAT, preset=9) as tar:
        for name, content in sorted((files(course) | {standing.VERSION.name: f"{now}\n".encode()}).items()):
            entry = tarfile.TarInfo(f"{TOP}-{now}/{name}")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


# ── one list, one Makefile: the students' are parts of ours ──


def students_environment(environment: str) -> str:
    """environment.yml with the sections of its pip list that the course itself needs."""
    sections = re.split(r"^(?= {6}# )", environment, flags=re.M)
    kept = [section for section in sections[1:] if section.splitlines()[0].strip() in PIP_SECTIONS]
    return "".join([sections[0], *kept])


def students_readme(text: str, course: CourseFile | None = None) -> str:
    """It names the archive's first unit where JupyterLab opens, and a unit of the archive as an example.

    What it says of the core path holds for the whole course; an instructor's own says what it assigns.
    """
    if course:
        text = text.replace(CORE_PATH, ASSIGNED)
    if course and not course.units.keys() >= {*UNITS}:
        text = text.replace(HOURS, "")
    example = EXAMPLE if _has(course, EXAMPLE) else first_unit(course)
    return text.replace("at unit 00", f"at unit {first_unit(course)[:2]}").replace(EXAMPLE, example)


def first_unit(course: CourseFile | None = None) -> str:
    return next((unit for unit in UNITS if _has(course, unit)), OPENED)


def students_makefile(makefile: str, course: CourseFile | None = None) -> str:
    """The Makefile's paragraphs without other targets, and without the variables that only those use.

    `make lab` opens the archive's first unit.
    """
    makefile = makefile.replace(f"{OPENED}/{OPENED}.ipynb", f"{first_unit(course)}/{first_unit(course)}.ipynb")
    made = re.compile(r"^([a-z-]+|\$\(EVERYTHING\)):(?!=)", re.M)
    kept = [part for part in makefile.split("\n\n") if set(made.findall(part)) <= set(TARGETS)]
    text = "\n\n".join(part for part in kept if _is_used(part, kept))
    return re.sub(r"^\.PHONY: help .*$", f".PHONY: {' '.join(TARGETS)}", text, flags=re.M)


def _is_used(paragraph: str, paragraphs: Iterable[str]) -> bool:
    variables = re.findall(r"^([A-Z_]+) *[:?]?=", paragraph, re.M)
    return not variables or any(f"$({name})" in part for name in variables for part in paragraphs)


def students_project(pyproject: str) -> str:
    """pyproject.toml as far as `pip install -e .` reads it."""
    return "".join(part for part in re.split(r"^(?=\[)", pyproject, flags=re.M) if part.startswith(PROJECT_TABLES))


def languages(course: CourseFile | None = None) -> dict[str, str]:
    """The catalogues of the units, and the course's language where it is not English, by path."""
    catalogues = [path.relative_to(ROOT) for path in (ROOT / "utils" / "languages").glob("*/*.po")]
    texts = {path.as_posix(): _text(path) for path in catalogues if path.stem not in UNITS or _has(course, path.stem)}
    if course and course.language != ENGLISH:
        texts[NAME] = f'language = "{course.language}"\n'
    return texts


# ── notebooks ──


def notebooks(course: CourseFile | None = None) -> dict[str, str]:
    """The released notebooks, by path.  Raises: SystemExit for one that somebody has worked in, or that is missing."""
    folder = ROOT / (RELEASED if course else "notebooks")
    paths = [path for path in sorted(folder.glob("*/*.ipynb")) if path.stem == path.parent.name and _has(course, path.stem)]
    texts = {f"notebooks/{path.stem}/{path.name}": _text(path) for path in paths}
    if course and (missing := course.units.keys() - {path.stem for path in paths}):
        sys.exit(f"not released yet: {', '.join(sorted(missing))}; `python -m grader assign` makes their notebooks")
    touched = [name for name, text in texts.items() if worked_in(text.encode())]
    if touched:
        sys.exit(f"not as released: {', '.join(touched)}; `make notebooks` makes them anew")
    return texts


# ── the checks ──


def checks(course: CourseFile | None = None) -> dict[str, str]:
    """What `from grader import check` needs, by path."""
    texts = {hunt.STORED.relative_to(ROOT): hunt.stored()} | {path: _text(path) for pattern in CHECKS
             for path in sorted(found.relative_to(ROOT) for found in (ROOT / "grader").glob(pattern))}
    return {path.as_posix(): text for path, text in texts.items()
            if all(_has(course, part) for part in path.parts if part in UNITS)}


def _has(course: CourseFile | None, unit: str) -> bool:
    return course is None or unit in course.units


def case_data(course: CourseFile | None = None) -> dict[str, bytes]:
    """Each exercise's contract, public cases, right results and slips as data, by path.

    The first time its mistakes run on every case, which takes minutes; so that is done by a process for each core.
    """
    needed = [exercise for exercise in EXERCISES.values() if _has(course, exercise.unit)]
    points = [course.points(one.id, one.unit, one.max_points) if course else one.max_points for one in needed]
    with ProcessPoolExecutor(processors(), multiprocessing.get_context("spawn")) as pool:
        data = pool.map(_data_of, [exercise.id for exercise in needed], points)
        data = tqdm(data, "exercises", len(needed), disable=None)  # silent where nobody looks
        return {f"grader/exercises/{exercise.unit}/{exercise.id}/{stored.FILE}": content
                for exercise, content in zip(needed, data, strict=True)}


def _data_of(name: str, points: float) -> bytes:
    torch.set_num_threads(1)  # sums in one order, and so the same bytes, on any machine
    exercise = EXERCISES[name] if points == EXERCISES[name].max_points else EXERCISES[name].with_points(points)
    return stored.to_bytes(exercise, EXERCISES[name].trials(PUBLIC_SEED, grading=False))


# ── small things ──


def _text(path: str | Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def main() -> None:
    archive = Path(sys.argv[1]) if sys.argv[1:] else ROOT / "build" / f"{TOP}-{version()}.tar.xz"
    try:
        course = course_if_any(ROOT)
    except BadCourseFile as error:
        sys.exit(f"Nothing was packed: {error}")
    write(archive, course)
    print(f"{archive}: {archive.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
