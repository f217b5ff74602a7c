"""A small course in a folder of its own, with submissions in it, for nbgrader to work on."""

import contextlib
import functools
import io
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from unittest import mock

import nbformat
from nbformat import NotebookNode
from nbgrader import api
from nbgrader.api import Gradebook
from nbgrader.apps import NbGrader
from nbgrader.apps.api import NbGraderAPI

from grader.__main__ import main as command_line
from grader.course.splice import is_check, is_solution, name_of
from grader.sandbox import bubblewrap as sandbox

ROOT = Path(__file__).resolve().parent.parent
api.get_alembic_version = functools.cache(api.get_alembic_version)  # a program of a second for each new gradebook
Change = Callable[[NotebookNode], None]


def _sandbox() -> bool:
    try:
        sandbox.require()
    except sandbox.NoSandbox:
        return False
    return True


SANDBOX = _sandbox()  # whether submissions can be marked in one here


class Course:
    """One unit's course folder: release it, hand in, run nbgrader, read the gradebook."""

    def __init__(self, root: Path, unit: str, exercises: Iterable[str] | None = None):
        self.root, self.unit = root, unit
        self.solution = nbformat.read(ROOT / "solutions" / unit / f"{unit}.ipynb", as_version=4)
        if exercises is not None:
            self.solution.cells = [c for c in self.solution.cells if belongs(c, set(exercises))]
        root.mkdir(parents=True, exist_ok=True)
        self.configure()
        self._write(root / "solutions" / unit, self.solution)
        self._release()
        self.skeleton = nbformat.read(root / "notebooks" / unit / f"{unit}.ipynb", as_version=4)

    def configure(self) -> None:
        """nbgrader's configuration, as in the real course."""
        shutil.copy(ROOT / "nbgrader_config.py", self.root)
        (self.root / "grader").mkdir()
        config = (ROOT / "grader" / "nbgrader_config.py").read_text()
        if not SANDBOX:
            config += "\nc.MarkExercises.unsafe = True  # no sandbox here, and the submissions are our own\n"
        (self.root / "grader" / "nbgrader_config.py").write_text(config)

    def _release(self) -> None:
        """`nbgrader generate_assignment`, without a program of its own."""
        with self._here():
            app = NbGrader()
            app.load_config_file()
            done = NbGraderAPI(config=app.config).generate_assignment(self.unit)
        assert done["success"], done

    def nbgrader(self, *arguments: str) -> str:
        """Run the stock command line; its log.  Raises: CalledProcessError."""
        return self.program("nbgrader", *arguments)

    def grader(self, *arguments: str) -> str:
        """What `python -m grader` does, in this process, which has torch in memory; what it prints.

        Raises: CalledProcessError.
        """
        unsafe = ["--unsafe"] if arguments[0] == "autograde" and not SANDBOX else []
        stdout, stderr = io.StringIO(), io.StringIO()
        with self._here(), contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            try:
                code = command_line([*arguments, *unsafe])
            except SystemExit as exited:
                code = exited.code
        if code:
            raise _failed(code, arguments, stdout.getvalue(), stderr.getvalue())
        return stdout.getvalue() + stderr.getvalue()

    def program(self, module: str, *arguments: str) -> str:
        """Run `python -m module` as a program; what it prints.  Raises: CalledProcessError."""
        done = subprocess.run([sys.executable, "-m", module, *arguments], cwd=self.root, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, env=self.environment())
        if done.returncode:
            raise _failed(done.returncode, arguments, done.stdout, done.stderr)
        return done.stdout + done.stderr

    @contextlib.contextmanager
    def _here(self) -> Iterator[None]:
        """This folder and its environment for this process."""
        with contextlib.chdir(self.root), mock.patch.dict(os.environ, self.environment()):
            yield

    def environment(self) -> dict[str, str]:
        """What a program of the course needs to run in this folder."""
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}

    def submit(self, student: str, change: Change, filled_in: bool = True) -> None:
        """Hand in the student version, with every solution filled in (or blank), after `change`."""
        notebook = nbformat.from_dict(self.skeleton)
        if filled_in:
            solutions = {name_of(c): c.source for c in self.solution.cells}
            for cell in notebook.cells:
                if is_solution(cell):
                    cell.source = solutions[name_of(cell)]
        change(notebook)
        self._write(self.root / "submitted" / student / self.unit, notebook)

    def marks(self, db_url: str = "") -> dict[str, dict[str, float]]:
        """student -> exercise -> points, from the gradebook."""
        with self.gradebook(db_url) as gradebook:
            return {s.student.id: {g.name.removesuffix("_check"): g.score for n in s.notebooks for g in n.grades}
                    for s in gradebook.assignment_submissions(self.unit)}

    def gradebook(self, db_url: str = "") -> Gradebook:
        """To be used in a `with`."""
        return Gradebook(db_url or f"sqlite:///{self.root / 'gradebook.db'}")

    def autograded(self, student: str) -> NotebookNode:
        return nbformat.read(self.root / "autograded" / student / self.unit / f"{self.unit}.ipynb", as_version=4)

    def feedback(self, student: str) -> str:
        return (self.root / "feedback" / student / self.unit / f"{self.unit}.html").read_text()

    def _write(self, folder: Path, notebook: NotebookNode) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, folder / f"{self.unit}.ipynb")


def solution_cell(notebook: NotebookNode, exercise: str) -> NotebookNode:
    return next(c for c in notebook.cells if is_solution(c) and name_of(c) == exercise)


def check_cell(notebook: NotebookNode, exercise: str) -> NotebookNode:
    return next(c for c in notebook.cells if is_check(c) and name_of(c) == f"{exercise}_check")


def verdict_text(notebook: NotebookNode, exercise: str) -> str:
    """What the marked notebook says about one exercise."""
    return "".join(o.data["text/plain"] for o in check_cell(notebook, exercise).outputs)


def belongs(cell: NotebookNode, exercises: set[str]) -> bool:
    """Cells of the chosen exercises, and set-up cells (which no exercise owns)."""
    if is_solution(cell) or is_check(cell):
        return name_of(cell).removesuffix("_check") in exercises
    return cell.cell_type == "code" and "watch" not in cell.metadata.get("tags", [])


def _failed(code: int, arguments: Sequence[str], stdout: str, stderr: str) -> subprocess.CalledProcessError:
    """With the end of what it said, which the error alone does not show."""
    error = subprocess.CalledProcessError(code, arguments, stdout, stderr)
    error.add_note((stdout + stderr)[-2000:])
    return error
