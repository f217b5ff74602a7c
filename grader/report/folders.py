"""Whose folders there are at each step of the course, wherever nbgrader's configuration puts them."""

import glob
from pathlib import Path

from nbgrader.coursedir import CourseDirectory


def units(course: CourseDirectory) -> list[str]:
    """Names of the units that have a notebook, released or not."""
    steps = (course.source_directory, course.release_directory)
    return sorted({unit for step in steps for unit, folder in folders(course, step, student_id=".").items()
                   if (folder / f"{unit}.ipynb").is_file()})


def released_notebook(course: CourseDirectory, unit: str) -> Path:
    """The students' version."""
    return Path(course.format_path(course.release_directory, ".", unit), f"{unit}.ipynb")


def folders(course: CourseDirectory, step: str, **known: str) -> dict[str, Path]:
    """The existing folders of one step: by student where `known` is an assignment_id, by unit where it is a student_id."""
    wanted, = {"student_id", "assignment_id"} - set(known)
    filled = course.directory_structure.format(nbgrader_step=step, **known, **{wanted: "\0"})
    before, _, after = filled.partition("\0")
    found = sorted(glob.glob(f"{glob.escape(before)}*{glob.escape(after)}", root_dir=course.root))
    return {path[len(before):len(path) - len(after)]: Path(course.root, path) for path in found
            if Path(course.root, path).is_dir()}
