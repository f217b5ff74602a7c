"""The students' archive: complete, without solutions, and with checks that say what the course's own say."""

import ast
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import textwrap
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

import cloudpickle
import nbformat
import pytest
from nbclient import NotebookClient
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from grader.bundle import archive as bundle
from grader.course.course_file import Assigned, CourseFile
from grader.exercises import EXERCISES, order_of, stored
from grader.exercises.references import ROOT, functions_of, mistakes_of

pytestmark = [pytest.mark.xdist_group("bundle"), pytest.mark.timeout(2700), pytest.mark.long]
LARGEST_BYTES = 11_000_000
UNIT = "00_start_here"
NEVER = re.compile("solutions|tests|mutants|attacks|grader/(sandbox|course|report|bundle)|nbgrader|feedback|__pycache__|"
                   "exercises/[01][^/]*/[^/]*/(exercise|mistakes)[.]py|exercises/shared|[.]git|[.]venv|build/")


@pytest.fixture(scope="module")
def archive(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("archive") / "students.tar.xz"
    bundle.write(path)
    return path


@pytest.fixture(scope="module")
def folder(archive, tmp_path_factory) -> Path:
    """The archive unpacked, where a student might have it."""
    place = tmp_path_factory.mktemp("my courses")
    with tarfile.open(archive) as tar:
        tar.extractall(place, filter="data")
    return next(place.iterdir())


def python_files(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.rglob("*.py"))}


# ── the archive ──


def test_the_same_files_make_the_same_archive(tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1800000000")
    for name, order in (("a", "abc"), ("b", "cba")):
        monkeypatch.setattr(bundle, "files", lambda _, order=order: {letter: letter.encode() for letter in order})
        bundle.write(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert re.fullmatch(r"[\d.]+-2027-01-15", bundle.version())
    with tarfile.open(tmp_path / "a") as tar:
        assert {name.partition("/")[0] for name in tar.getnames()} == {f"{bundle.TOP}-{bundle.version()}"}
        assert tar.extractfile(f"{bundle.TOP}-{bundle.version()}/VERSION").read().decode() == f"{bundle.version()}\n"


def test_the_same_course_makes_the_same_files(folder):
    """Drawn again with other hashes and in another time zone: all texts, and the data of every fifth exercise."""
    code = ("import hashlib, json, torch; from grader.bundle import archive; torch.set_num_threads(1); "
            "archive.EXERCISES = dict(list(archive.EXERCISES.items())[::5]); print(json.dumps({name: hashlib.sha256("
            "content).hexdigest() for name, content in archive.files().items()}))")
    again = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True,
                           env={**os.environ, "PYTHONHASHSEED": "1", "TZ": "Pacific/Auckland"})
    files = json.loads(again.stdout)
    assert len([name for name in files if name.endswith(stored.FILE)]) == -(-len(EXERCISES) // 5)
    assert files == {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in files}


def test_one_folder_with_what_a_student_needs(archive):
    with tarfile.open(archive) as tar:
        entries = tar.getmembers()
    names = [entry.name for entry in entries]
    assert names == sorted(names) and archive.stat().st_size < LARGEST_BYTES
    assert all(entry.isreg() and (entry.mtime, entry.uid, entry.gid, entry.mode) == (0, 0, 0, 0o644) for entry in entries)
    top, = {PurePosixPath(name).parts[0] for name in names}
    assert top.startswith(f"{bundle.TOP}-")
    assert {PurePosixPath(name).parts[1] for name in names} == {
        "README.md", "VERSION", "environment.yml", "Makefile", "pyproject.toml", "docs", "tools", "notebooks", "utils",
        "grader"}
    inside = [name.removeprefix(f"{top}/") for name in names]
    assert not [name for name in inside if NEVER.search(name)]
    assert {f"notebooks/{e.unit}/{e.unit}.ipynb" for e in EXERCISES.values()} <= set(inside)
    for path in (ROOT / "utils").rglob("*.py"):
        assert path.relative_to(ROOT).as_posix() in inside


def test_its_lists_are_parts_of_ours(folder):
    ours, theirs = ((base / "environment.yml").read_text().splitlines() for base in (ROOT, folder))
    assert [line for line in ours if line in theirs] == theirs
    words = " ".join(theirs)
    assert all(f"{name}==" in words for name in ("torch", "jupyterlab", "safetensors", "cloudpickle")) and "-e ." in words
    assert not re.search("nbgrader|pytest|psutil|dask|ruff|playwright", words)
    assert "[tool." not in (folder / "pyproject.toml").read_text().replace("[tool.setuptools", "")


def test_its_makefile_has_three_targets(folder):
    listed = subprocess.run(["make", "--no-print-directory", "help"], cwd=folder, check=True, capture_output=True, text=True)
    assert re.findall(r"^make ([a-z-]+)", listed.stdout, re.M) == ["help", "lab", "clean"]
    text = (folder / "Makefile").read_text()
    assert set(re.findall(r"^\.PHONY: ([a-z].*)$", text, re.M)) == {"help lab clean"}
    defined = set(re.findall(r"^([A-Z_]+) *[:?]?=", text, re.M))
    assert set(re.findall(r"(?<!\$)\$\(([A-Z_]+)\)", text)) - defined <= {"CURDIR", "ARGS", "TOKEN", "PORT"}
    assert (tools := re.findall(r"tools/[\w/]+\.\w+", text)) and all((folder / name).is_file() for name in tools)


@pytest.mark.parametrize("units, opened, example", [
    ((), "00_start_here", "01_collectives"), (("00_start_here", "02_data_parallel"), "00_start_here", "00_start_here"),
    (("03_zero1", "01_collectives"), "01_collectives", "01_collectives"),
    (("03_zero1", "02_data_parallel"), "02_data_parallel", "02_data_parallel")])
def test_its_first_unit_is_what_students_see_first(units, opened, example):
    course = CourseFile(units={unit: Assigned(unit, ()) for unit in units}) if units else None
    makefile = bundle.students_makefile((ROOT / "Makefile").read_text(), course)
    assert re.findall(r"default_url=/lab/tree/notebooks/(\S+)", makefile) == [f"{opened}/{opened}.ipynb"]
    readme = bundle.students_readme((ROOT / "grader" / "bundle" / "for_students.md").read_text(), course)
    assert f"opens JupyterLab at unit {opened[:2]}." in readme and f"`notebooks/{example}/{example}.ipynb`" in readme
    assert {*re.findall(r"\d\d_\w+", readme)} == {example}
    assert ("twelve hours" in readme) == ("what the core path asks for" in readme) == (not units)


def test_a_notebook_that_somebody_worked_in_is_refused(monkeypatch, tmp_path):
    unit = "00_start_here"
    notebook = nbformat.read(ROOT / "notebooks" / unit / f"{unit}.ipynb", as_version=4)
    monkeypatch.setattr(bundle, "ROOT", tmp_path)
    path = tmp_path / "notebooks" / unit / f"{unit}.ipynb"
    path.parent.mkdir(parents=True)
    nbformat.write(notebook, path)
    assert len(bundle.notebooks()) == 1
    next(cell for cell in notebook.cells if cell.id == "hello_rank").source = "def hello_rank():\n    return 'hello'"
    nbformat.write(notebook, path)
    with pytest.raises(SystemExit, match="not as released: notebooks/00_start_here"):
        bundle.notebooks()


# ── nothing is given away ──


def test_no_solution_is_in_any_file(folder):
    texts = {path: path.read_text() for path in folder.rglob("*.*") if path.is_file() and path.suffix != ".safetensors"}
    assert not [path for path, text in texts.items() if "SOLUTION" in text]
    for region in solutions():
        lines = textwrap.dedent(region).strip()
        assert not [path for path, text in texts.items() if lines in textwrap.dedent(text) or region.strip() in text]


def test_no_function_does_what_a_solution_does(folder):
    """Compared without regard to names: the oracle of an exercise in one process is often its solution."""
    shapes = {shape(ast.unparse(function)) for cell in solution_cells() for function in functions_worth_hiding(cell)}
    renamed = ("def g(x):\n    'Words.'\n    job = dist.all_reduce(x, group=group, async_op=True)\n"
               "    z = work_on()\n    job.wait()\n    return x, z")
    assert shape(renamed) in shapes, "a solution would not be noticed"
    for name, source in python_files(folder).items():
        functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
        assert not [node.name for node in functions if shape(ast.unparse(node)) in shapes], name


def shape(function: str) -> str:
    """A function's body without names and docstring."""
    body = ast.parse(function).body[0].body
    kept = [s for s in body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    return re.sub(r"id='\w+'", "id", ast.dump(ast.Module(kept, [])))


def solution_cells() -> list[str]:
    """The cell of every exercise's solution."""
    notebooks = [nbformat.read(path, as_version=4) for path in sorted((ROOT / "solutions").glob("*/*.ipynb"))]
    found = [cell.source for notebook in notebooks for cell in notebook.cells if "### BEGIN SOLUTION" in cell.source]
    assert len(found) == len(EXERCISES)
    return found


def solutions() -> list[str]:
    """The lines between every pair of marks; a class has several."""
    return [region for cell in solution_cells()
            for region in re.findall(r"### BEGIN SOLUTION\n(.*?) +### END SOLUTION", cell, re.S)]


def functions_worth_hiding(cell: str) -> list[ast.FunctionDef]:
    """An exercise's function, or its class's methods; of those not the ones that pass a call on in one line."""
    top = ast.parse(cell).body[0]
    if isinstance(top, ast.FunctionDef):
        return [top]
    return [node for node in ast.walk(top) if isinstance(node, ast.FunctionDef) and len(node.body) > 1]


def test_of_an_exercise_there_is_no_more_than_its_technique_and_data(folder):
    exercises = folder / "grader" / "exercises"
    assert not (exercises / "shared").exists()
    inside = {path.name for path in exercises.glob("[0-9]*/*/*")}
    assert inside <= {"call.py", "technique.py", "hints.toml", stored.FILE}
    for name, source in python_files(exercises).items():
        words = {getattr(node, key, None) for node in ast.walk(ast.parse(source)) for key in ("id", "arg", "name")}
        assert name == "stored.py" or not words & {"grading", "Draw", "draw", "make_cases", "oracle", "slips"}, name


# ── the checks work, and say the same ──


def test_what_its_own_code_reads_and_writes_is_what_was_packed(folder):
    """Public cases, right results and slips, bit by bit. All else of its checks are our files, to the letter."""
    code = ("import hashlib, json; from grader.exercises import EXERCISES, stored; print(json.dumps({name: hashlib.sha256("
            "stored.to_bytes(e, e.trials(0, False))).hexdigest() for name, e in EXERCISES.items()}))")
    theirs = json.loads(in_bundle(folder, "-c", code).stdout)
    packed = folder / "grader" / "exercises"
    assert theirs == {name: hashlib.sha256((packed / exercise.unit / name / stored.FILE).read_bytes()).hexdigest()
                      for name, exercise in EXERCISES.items()}
    for path in (folder / "grader").rglob("*.py"):
        assert path.read_bytes() == (ROOT / path.relative_to(folder)).read_bytes()


def test_no_name_is_missing(folder):
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F", "--no-cache", "grader", "utils", "tools"]
    run = subprocess.run(ruff, cwd=folder, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout


def test_everything_imported_is_in_it_or_installed_by_it(folder):
    sources = python_files(folder) | {str(path): cells_of(path) for path in folder.glob("notebooks/*/*.ipynb")}
    installed = installed_by((folder / "environment.yml").read_text())
    for name, source in sources.items():
        for module in imported(source):
            top = module.split(".")[0]
            if top in ("grader", "utils"):
                place = folder.joinpath(*module.split("."))
                assert place.with_suffix(".py").exists() or (place / "__init__.py").exists(), f"{name} imports {module}"
            elif top not in sys.stdlib_module_names:
                assert top in installed, f"{name} imports {module}"


def cells_of(path: Path) -> str:
    cells = nbformat.read(path, as_version=4).cells
    lines = "\n".join(cell.source for cell in cells if cell.cell_type == "code").splitlines()
    return "\n".join(line for line in lines if not line.startswith(("%", "!")))


def imported(source: str) -> set[str]:
    nodes = list(ast.walk(ast.parse(source)))
    found = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
    return found | {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}


def installed_by(environment: str) -> set[str]:
    """Top-level modules of the listed packages and of all that they need."""
    needed = {canonicalize_name(name) for name in re.findall(r"- ([\w.-]+)==", environment)}
    done: set[str] = set()
    while needed - done:
        name = (needed - done).pop()
        done.add(name)
        needed |= needs(name)
    return {module for module, packages in importlib.metadata.packages_distributions().items()
            if {canonicalize_name(package) for package in packages} & done}


def needs(package: str) -> set[str]:
    try:
        listed = importlib.metadata.requires(package) or ()
    except importlib.metadata.PackageNotFoundError:
        return set()  # needed on another system only
    return {canonicalize_name(r.name) for r in map(Requirement, listed) if not r.marker or r.marker.evaluate({"extra": ""})}


def test_check_needs_none_of_what_marks(folder):
    code = "import sys, json; from grader import check; print(json.dumps([check.__dir__(), sorted(sys.modules)]))"
    run = in_bundle(folder, "-c", code)
    names, modules = json.loads(run.stdout)
    assert names == list(EXERCISES)
    shown = in_bundle(folder, "-c", f"from grader import progress; print(progress('{folder.name}/notebooks'))").stdout
    assert shown.rstrip().endswith(f"Version of the course: {(folder / 'VERSION').read_text().strip()}.")
    assert not {"nbgrader", "psutil", "dask", "distributed", "sqlalchemy", "sqlite3", "nbconvert"} & set(modules)


def in_bundle(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess:
    """Run Python where `grader` and `utils` are the bundle's; the repository's are installed, but come later."""
    return subprocess.run([sys.executable, *arguments], cwd=folder.parent, check=True, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"})


def verdicts(folder: Path, functions: Sequence[tuple[str, Callable]]) -> list[dict]:
    """What the bundle's checks say of each of these functions, which the repository made (see in_bundle.py)."""
    arguments = []
    for number, (exercise, function) in enumerate(functions):
        file = folder.parent / f"{number}.pickle"
        file.write_bytes(cloudpickle.dumps(function))
        arguments += [exercise, str(file)]
    said = json.loads(in_bundle(folder, ROOT / "tests" / "in_bundle.py", *arguments).stdout)
    assert {"grader.judging.judge", "utils.ranks.run"} <= set(said["modules"])
    assert not [name for name, file in said["modules"].items() if not Path(file).is_relative_to(folder)]
    return list(said["verdicts"].values())


def test_references_earn_everything_skeletons_nothing_and_a_mistake_gets_its_hint(folder):
    """One unit shows that the checks run in it: what they are made of is the same (see above)."""
    names, mistakes = order_of(UNIT), [mistakes_of(UNIT, name)[0] for name in order_of(UNIT)]
    right, blank, wrong = (verdicts(folder, list(zip(names, functions, strict=True))) for functions in (
        [functions_of("solutions", UNIT)[name] for name in names], [functions_of("notebooks", UNIT)[name] for name in names],
        [mistake.make() for mistake in mistakes]))
    assert all(verdict["passed"] for verdict in right), right
    assert all(verdict["points"] == 0 and "not written yet" in verdict["text"] for verdict in blank), blank
    assert [verdict["hints"][0] for verdict in wrong] == [mistake.id for mistake in mistakes]
    assert not any(verdict["passed"] for verdict in wrong)


# ── at work in it ──


def test_make_lab_serves_the_notebooks(folder, free_port):
    """With this Python in place of a .venv of its own, which would take minutes to install."""
    python = folder / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{folder}" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    (folder / ".venv" / ".installed").write_text(f"{folder}\n")
    command = ["make", "lab", f"PORT={free_port}", "TOKEN=secret", "ARGS=--no-browser"]
    server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        address = f"http://127.0.0.1:{free_port}/api/contents/notebooks/01_collectives/01_collectives.ipynb?token=secret"
        assert json.loads(answer(address, server))["type"] == "notebook"
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(address.replace("secret", "guess"), timeout=20)
    finally:
        server.terminate()
        server.communicate(timeout=30)


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def answer(address: str, server: subprocess.Popen, timeout_s: float = 120.0) -> bytes:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and server.poll() is None:
        try:
            return urllib.request.urlopen(address, timeout=20).read()
        except urllib.error.HTTPError:
            raise
        except OSError:
            time.sleep(0.5)
    server.terminate()
    raise TimeoutError(server.communicate(timeout=30)[0])


def test_the_first_cell_prepares_a_kernel_that_knows_nothing_of_the_course(archive, folder, tmp_path):
    """As on Colab: the archive is uploaded, there is no git, nothing of ours is on the path, the kernel is elsewhere."""
    uploaded = tmp_path / folder.name
    shutil.copy(archive, f"{uploaded}.tar.xz")
    first = re.search(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)[1]
    cells = [re.sub(r'"/content/[^"]*"', repr(str(uploaded)), first), first_code_cell(folder, "01_collectives"),
             "import utils; print(utils.__file__, run_ranks(lambda rank: dist.get_backend() + str(rank), 2).results)"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    (elsewhere := tmp_path / "elsewhere").mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"PATH": str(elsewhere)}
    NotebookClient(notebook, timeout=180, kernel_name="python3", resources={"metadata": {"path": str(elsewhere)}}).execute(
        env=environment)
    said = "".join(output.get("text", "") for cell in notebook.cells for output in cell.outputs)
    assert "nothing to install" in said and f"{uploaded}/utils/__init__.py ['gloo0', 'gloo1']" in said


def first_code_cell(folder: Path, unit: str) -> str:
    notebook = nbformat.read(folder / "notebooks" / unit / f"{unit}.ipynb", as_version=4)
    return next(cell.source for cell in notebook.cells if cell.cell_type == "code")


def test_a_released_notebook_checks_a_student_s_function(folder):
    """Its set-up cells, one exercise solved and checked, another one left as it was."""
    path = folder / "notebooks/01_collectives/01_collectives.ipynb"
    notebook, source = (nbformat.read(base / "01_collectives/01_collectives.ipynb", as_version=4)
                        for base in (folder / "notebooks", ROOT / "solutions"))
    cells = {cell.id: cell for cell in notebook.cells}
    cells["broadcast_naive"].source = next(cell.source for cell in source.cells if cell.id == "broadcast_naive")
    first = next(i for i, cell in enumerate(notebook.cells) if cell.id.endswith("-contract"))
    wanted = ["broadcast_naive", "broadcast_naive-check", "broadcast_tree", "broadcast_tree-check"]
    notebook.cells = [c for c in notebook.cells[:first] if "watch" not in c.metadata.get("tags", [])]
    notebook.cells += [cells[name] for name in wanted]
    NotebookClient(notebook, timeout=180, kernel_name="python3", allow_errors=True,
                   resources={"metadata": {"path": str(path.parent)}}).execute(
        env={**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"})
    assert "✓" in "".join(o.get("data", {}).get("text/plain", "") for o in cells["broadcast_naive-check"].outputs)
    assert not [o for cell in notebook.cells if cell.cell_type == "code" for o in cell.outputs if o.output_type == "error"]
    said, = (o.text for o in cells["broadcast_tree-check"].outputs if o.get("name") == "stderr")
    assert said.startswith("broadcast_tree is not written")
