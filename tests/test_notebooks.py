"""The notebooks: generated from the solutions, in the course's form, and running from top to bottom."""

import ast
import builtins
import copy
import re
import shutil
import symtable

import nbformat
import pytest

from grader.contracts import CORE, contracts_of, core_path, minutes_of
from grader.course.counts import asks, bring_up_to_date, in_short
from grader.exercises import EXERCISES
from grader.exercises.references import ROOT
from grader.hunt import has_faults
from grader.site.execute import executed
from tests.course import Course

UNITS = sorted({exercise.unit for exercise in EXERCISES.values()})
LONGEST_CODE_LINES = 20
LONGEST_CLASS_LINES = 90  # what a unit ends with; a student is handed no more than LONGEST_SKELETON_LINES of it
LONGEST_SKELETON_LINES = 40
LONGEST_PROGRAM_LINES = 225  # of the blind hunt, with the lines that say how it is broken
DEFINITIONS = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef
ASKED = re.compile(r"predict\.(?:number|choice)\(\s*\"([\w-]+)\"")
COMPARED = re.compile(r"predict\.compare\(\s*\"([\w-]+)\"")


def read(folder: str, unit: str):
    return nbformat.read(ROOT / folder / unit / f"{unit}.ipynb", as_version=4)


@pytest.mark.parametrize("unit", UNITS)
def test_students_version_is_what_nbgrader_generates(unit, tmp_path):
    Course(tmp_path, unit)
    generated = (tmp_path / "notebooks" / unit / f"{unit}.ipynb").read_text()
    assert generated == (ROOT / "notebooks" / unit / f"{unit}.ipynb").read_text(), "run `make notebooks`"


@pytest.mark.parametrize("unit", UNITS)
def test_nothing_of_a_solution_is_left_for_students(unit):
    student, source = read("notebooks", unit), read("solutions", unit)
    text = "\n".join(cell.source for cell in student.cells)
    for cell in source.cells:
        for region in re.findall(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", cell.source, re.S):
            assert region.strip() not in text


FACTS = re.compile(r"(★ core|further|challenge \(c\)) · (?=[●○]{5} )●+○* · \d+ minutes · (about )?\w+( or \w+)? lines?"
                   r"( \(.*\))?( · builds on .*)?")


@pytest.mark.parametrize("name", EXERCISES)
def test_an_exercise_is_four_cells(name):
    exercise = EXERCISES[name]
    cells = read("solutions", exercise.unit).cells
    start = next(i for i, cell in enumerate(cells) if cell.id == f"{name}-contract")
    end = next(i for i, cell in enumerate(cells) if cell.id == f"{name}-check")
    contract, skeleton, *seen, check = cells[start:end + 1]
    parts = [cell.id.removeprefix(f"{name}-") for cell in seen]
    assert skeleton.id == name and parts in (["watch"], ["guess", "watch"])
    assert contract.cell_type == "markdown" and contract.source.startswith("###")
    assert FACTS.fullmatch(contract.source.split("\n")[2]), "the contract's line of facts has another form"
    assert skeleton.metadata.nbgrader.grade_id == name and skeleton.metadata.nbgrader.solution
    assert all("watch" in cell.metadata.tags for cell in seen)
    assert check.metadata.nbgrader.grade_id == f"{name}_check" and check.metadata.nbgrader.locked
    assert check.metadata.nbgrader.points == exercise.max_points
    assert check.source == f"check.{name}({name})"


@pytest.mark.parametrize("unit", UNITS)
def test_exercises_come_in_the_order_of_the_course(unit):
    ids = [cell.id for cell in read("solutions", unit).cells]
    positions = [ids.index(name) for name, exercise in EXERCISES.items() if exercise.unit == unit]
    assert positions == sorted(positions)


@pytest.mark.parametrize("unit", UNITS)
def test_every_answer_has_its_question(unit):
    source = "\n".join(cell.source for cell in read("solutions", unit).cells if cell.cell_type == "code")
    asked = re.findall(r'predict\.(?:number|choice)\(\s*"([\w-]+)"', source)
    assert len(set(asked)) == len(asked) and {*re.findall(r'predict\.compare\(\s*"([\w-]+)"', source)} <= {*asked}


@pytest.mark.parametrize("unit", UNITS)
def test_cells_are_short_and_clean(unit):
    for cell in read("solutions", unit).cells:
        if cell.cell_type == "code":
            longest = LONGEST_CLASS_LINES if cell.source.startswith("class ") else LONGEST_CODE_LINES
            longest = LONGEST_PROGRAM_LINES if has_faults(cell.source) else longest
            assert len(cell.source.splitlines()) <= longest + 4 * ("SOLUTION" in cell.source), cell.id
            assert not cell.outputs and cell.execution_count is None, cell.id
        assert not re.search(r"(?<![\w.])/(home|root|tmp|work|Users)/", cell.source), cell.id
        assert re.fullmatch(r"[A-Za-z0-9_-]+", cell.id), cell.id


@pytest.mark.parametrize("unit", UNITS)
def test_setup_cells_do_nothing_but_import_and_no_id_comes_twice(unit):
    for cell in read("solutions", unit).cells:
        if cell.id.startswith("setup"):
            python = re.sub(r"^%.*$", "", cell.source, flags=re.M)
            assert all(isinstance(node, (ast.Import, ast.ImportFrom)) for node in ast.parse(python).body), cell.id
    ids = [cell.id for cell in read("solutions", unit).cells]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("unit", UNITS)
def test_what_is_only_defined_needs_no_cell_that_runs_something(unit):
    """So an answer can be tried outside a notebook, with imports, definitions and solutions alone."""
    names = {"__name__": "__main__"}
    for cell in read("solutions", unit).cells:
        if cell.cell_type == "code" and not re.search("^[%!]", cell.source, re.M):
            nodes = ast.parse(cell.source).body
            if cell.metadata.get("nbgrader", {}).get("solution") or all(isinstance(node, DEFINITIONS) for node in nodes):
                exec(compile(cell.source, cell.id, "exec"), names)
    assert any(name in names for name in EXERCISES if EXERCISES[name].unit == unit)


@pytest.mark.parametrize("name", EXERCISES)
def test_an_exercise_has_a_ladder_of_hints(name):
    contract = next(cell for cell in read("solutions", EXERCISES[name].unit).cells if cell.id == f"{name}-contract")
    hints = re.findall(r"<details><summary>(.+?)</summary>\n\n.+?\n\n</details>", contract.source, re.S)
    assert 2 <= len(hints) <= 4 and [hint[:6] for hint in hints] == [f"Hint {i + 1}" for i in range(len(hints))]


@pytest.mark.parametrize("unit", UNITS)
def test_every_prediction_is_asked_before_it_is_compared(unit):
    cells = [cell for cell in read("solutions", unit).cells if cell.cell_type == "code"]
    asked = [(name, i) for i, cell in enumerate(cells) for name in ASKED.findall(cell.source)]
    compared = {name: i for i, cell in enumerate(cells) for name in COMPARED.findall(cell.source)}
    assert 4 <= len(asked) == len(dict(asked)) and set(dict(asked)) == set(compared)
    assert all(i < compared[name] for name, i in asked)
    assert not [cell.id for cell in cells if "# Predict" in cell.source]
    end = next(cell for cell in cells if cell.id == "guesses")
    assert end.source.endswith("display(predict.table())\nprogress()")


@pytest.mark.parametrize("unit", UNITS)
def test_skeletons_are_short(unit):
    for cell in read("notebooks", unit).cells:
        assert cell.cell_type != "code" or len(cell.source.splitlines()) <= LONGEST_SKELETON_LINES, cell.id


@pytest.mark.timeout(900)  # on a busy machine; each cell has a limit of its own
@pytest.mark.parametrize("unit", [pytest.param(unit, marks=[pytest.mark.long] * (unit >= "01")) for unit in UNITS])
def test_solution_notebook_runs_from_top_to_bottom(unit):
    notebook = executed(ROOT / "solutions" / unit / f"{unit}.ipynb")
    pictures = [o for cell in notebook.cells if cell.cell_type == "code" for o in cell.outputs
                if "image/png" in o.get("data", {}) or "<img" in "".join(o.get("data", {}).get("text/html", ""))]
    assert len(pictures) >= 3
    for name in (n for n, e in EXERCISES.items() if e.unit == unit):
        check = next(cell for cell in notebook.cells if cell.id == f"{name}-check")
        assert "✓" in "".join(o.get("data", {}).get("text/plain", "") for o in check.outputs)


# ── the core path ──


@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_begins_with_what_its_core_path_asks(unit, tmp_path):
    shutil.copytree(ROOT / "solutions" / unit, tmp_path / "solutions" / unit)
    shutil.copy(ROOT / "README.md", tmp_path)
    assert bring_up_to_date(unit, tmp_path) == [], "run `make notebooks`"
    path, readme = core_path(read("solutions", unit).cells), tmp_path / "README.md"
    assert f"**Core path** (★): {asks(path)}." in read("solutions", unit).cells[0].source
    said = f"| {in_short(path)} |"
    assert said in readme.read_text()
    readme.write_text(readme.read_text().replace(said, "| 9 ★, 1 min |"))
    assert bring_up_to_date(unit, tmp_path) and said in readme.read_text()


def names_in(source: str) -> tuple[set[str], set[str]]:
    """(names that a cell sets, names that it takes from other cells or builtins)"""
    table = symtable.symtable("\n".join(line for line in source.split("\n") if not line.startswith("%")), "cell", "exec")
    own = {name.get_name() for name in table.get_symbols() if name.is_assigned() or name.is_imported()}
    used = {name.get_name() for name in table.get_symbols() if name.is_referenced()}
    inner = [*table.get_children()]
    while inner:
        scope = inner.pop()
        used |= {name.get_name() for name in scope.get_symbols() if name.is_global()}
        inner += scope.get_children()
    return own, used - own


NOTHING = "nothing"
OUTSIDE = {*dir(builtins), "display", "rank", "run", "world_size"}  # %%ranks gives the last three
STOOD_IN_FOR = {("05_zero3", "FullyShard"), ("11_planner", "device_traffic"), ("11_planner", "step_seconds"),
                *(("02_data_parallel", name) for name in ("alpha_s", "beta_s", "F"))}  # the cells do without


@pytest.mark.parametrize("unit", UNITS)
def test_the_core_path_uses_no_name_from_a_cell_that_is_not_on_it(unit):
    cells = [cell for cell in read("solutions", unit).cells if cell.cell_type == "code"]
    core = {contract.name for contract in contracts_of(read("solutions", unit).cells) if contract.path == CORE}
    known = OUTSIDE | {name for of_unit, name in STOOD_IN_FOR if of_unit == unit}
    for cell in cells:
        if {"core"} & {*cell.metadata.get("tags", [])} or cell.id in core or cell.id.startswith(("setup", "predictions")):
            own, used = names_in(cell.source)
            assert used <= known, (cell.id, used - known)
            known |= own


def test_the_core_path_takes_twelve_hours_and_a_half_at_most():
    paths = [core_path(read("solutions", unit).cells) for unit in UNITS]
    assert sum(path.exercises for path in paths) >= 30 and sum(path.minutes for path in paths) <= 12.5 * 60


def test_what_the_readme_leaves_out_makes_it_ten_hours():
    below = (ROOT / "README.md").read_text().partition("**If you have ten hours**")[2]
    left_out = re.findall(r"^- (.*)", below.partition("**If you have more")[0], re.M)
    core = {unit[:2]: read("solutions", unit).cells for unit in UNITS}
    saved = sum(minutes_left_out(words, core) for words in left_out)
    assert len(left_out) >= 5 and sum(core_path(cells).minutes for cells in core.values()) - saved <= 10 * 60


def minutes_left_out(words: str, core: dict[str, list]) -> float:
    """Of an entry such as "in unit 06, `f` and section 6": exercises of the core path, sections, or whole units."""
    first, *others = re.findall(r"\b\d\d\b", words)
    if words.startswith("unit"):
        return sum(core_path(core[unit]).minutes for unit in (first, *others))
    after, at = re.search(r"after section (\d)", words), re.search(r"(?<!after )section (\d+)", words)
    sections = range(int(after[1]) + 1, 99) if after else [int(at[1])] if at else []
    saved, section = 0.0, 0
    of_core = {exercise.name: exercise for exercise in contracts_of(core[first]) if exercise.path == CORE}
    for cell in core[first]:
        heading = re.match(r"## (\d*)", cell.source) if cell.cell_type == "markdown" else None
        section = int(heading[1] or 99) if heading else section
        is_left_out = section in sections or cell.id in re.findall(r"`(\w+)`", words)
        if is_left_out and cell.id in of_core:
            saved += of_core[cell.id].minutes
        elif section in sections and CORE in cell.metadata.get("tags", []) and cell.id.removesuffix("-check") not in of_core:
            saved += minutes_of(cell)
    return saved


@pytest.mark.timeout(900)
@pytest.mark.parametrize("unit", [pytest.param(unit, marks=[pytest.mark.long] * (unit >= "01")) for unit in UNITS])
def test_every_cell_runs_for_readers_who_have_solved_nothing_or_the_core_path(unit):
    """One after the other in one kernel, as a reader goes on.

    Of cells that need nothing unwritten only those that others need: they run above, with all solved.
    """
    notebook = read("notebooks", unit)
    path_of = {contract.name: contract.path for contract in contracts_of(notebook.cells)}
    solutions = {cell.id: cell.source for cell in read("solutions", unit).cells}
    unwritten = {NOTHING: {*path_of}, CORE: {name for name, path in path_of.items() if path != CORE}}
    notebook.cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    later = copy.deepcopy(notebook.cells)
    for cell in later:
        cell.source = solutions[cell.id] if path_of.get(cell.id) == CORE else cell.source
    parts = {NOTHING: notebook.cells, CORE: later}
    for solved, cells in parts.items():
        run = runs_otherwise(cells, unwritten[solved])
        parts[solved] = [cell for cell in cells if cell.id in run]
        for cell in parts[solved]:
            cell.id = f"{solved}-{cell.id}"[-64:]
    notebook.cells = [cell for cells in parts.values() for cell in cells]
    notebook = executed(ROOT / "notebooks" / unit / f"{unit}.ipynb", notebook)
    for solved, names in unwritten.items():
        for name in names:  # what is not passed is said on stderr
            check = next(cell for cell in notebook.cells if cell.id == f"{solved}-{name}-check"[-64:])
            assert any(output.get("name") == "stderr" for output in check.outputs)
    left = {cell.id for cell in notebook.cells if any("This cell needs" in str(output) for output in cell.outputs)}
    assert not [cell.id for cell in notebook.cells if cell.id in left and cell.id.startswith(CORE)
                and "core" in cell.metadata.get("tags", [])]


def runs_otherwise(cells: list, unwritten: set[str]) -> set[str]:
    """The ids of cells that need an unwritten exercise, or what another cell makes of it, and of cells that these need."""
    touched, otherwise = set(), set()
    for cell in cells:
        own, used = names_in(cell.source)
        if cell.id in unwritten or used & touched:
            touched |= own
            otherwise.add(cell.id)
        else:
            touched -= own
    wanted = set()
    for cell in reversed(cells):
        own, used = names_in(cell.source)
        if cell.id in otherwise or own & wanted or cell.id.startswith("setup") or ASKED.search(cell.source):
            otherwise.add(cell.id)
            wanted |= used
    return otherwise
