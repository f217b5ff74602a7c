"""What honest people and their programs do to a right notebook, and what of it may cost points: none, or what it touches.

A change is a function of a Handed: it changes the cells (plain JSON, as a notebook file has them) or the file's bytes, and
says what it touches. `python -m tests.changes [UNIT …]` tries every change, and random pairs, on whole units.
"""

import copy
import json
import random
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import nbformat

from grader.course import running
from grader.course.again import Again
from grader.course.mark import Trying, mark_submission
from grader.exercises import EXERCISES
from grader.judging.verdict import Verdict
from tests.course import ROOT

Cell = dict[str, Any]
TALKATIVE = 2_000_000  # letters of one output
FAILS_AT_ONCE = "import a_package_that_is_not_here\n"


@dataclass
class Handed:
    """A right notebook on its way to be handed in. exercise: the one that changes are about, if they are about one.

    lost: exercises that a change costs. says: what a remark must then say; {} stands for the cell, by number and first line.
    """

    unit: str
    data: dict[str, Any]
    exercise: str
    random: random.Random
    lost: set[str] = field(default_factory=set)
    says: str = ""
    guilty: Cell | None = None
    others: list[tuple[str, bytes]] = field(default_factory=list)
    encode: Callable[[str], bytes] = str.encode

    @property
    def cells(self) -> list[Cell]:
        return self.data["cells"]

    def place(self, name: str) -> int:
        """Where the cell with this grade_id stands, the last of several; a check that is gone, behind its solution."""
        solution = name.removesuffix("_check")
        for wanted in (lambda cell: _grade_id(cell) == name, lambda cell: _grade_id(cell) == solution,
                       lambda cell: re.search(rf"^(def|class) {solution}\b", cell["source"], re.MULTILINE)):
            if places := [number for number, cell in enumerate(self.cells) if wanted(cell)]:
                return places[-1]
        raise LookupError(f"no cell of {name}")

    @property
    def solution(self) -> Cell:
        return self.cells[self.place(self.exercise)]

    @property
    def set_up(self) -> Cell:
        return next(cell for cell in self.cells if cell["cell_type"] == "code" and "import" in cell["source"])

    def insert(self, place: int, source: str, kind: str = "code", **metadata: Any) -> Cell:
        cell: Cell = {"cell_type": kind, "id": f"own{self.random.getrandbits(40):x}", "metadata": metadata, "source": source}
        if kind == "code":
            cell |= {"execution_count": None, "outputs": []}
        self.cells.insert(place, cell)
        return cell

    def own(self, source: str, where: str = "") -> Cell:
        """A cell of the student's own: above the solution, below its check, at the end, or anywhere."""
        name = self.exercise
        place = {"above": self.place(name), "between": self.place(name) + 1, "below": self.place(f"{name}_check") + 1,
                 "end": len(self.cells)}.get(where)
        return self.insert(self.random.randint(2, len(self.cells)) if place is None else place, source)

    def costs(self, cell: Cell, says: str, *lost: str) -> None:
        self.guilty, self.says = cell, says
        self.lost |= set(lost)

    def expected_remark(self) -> str:
        """With the words for the cell that is to blame, in the state in which it was handed in."""
        if not self.guilty:
            return self.says
        if self.guilty["source"].startswith(FAILS_AT_ONCE):
            return ""  # nothing below that line runs
        number = next(n for n, cell in enumerate(self.cells, 1) if cell is self.guilty)
        first = next(line.strip() for line in self.guilty["source"].split("\n") if line.strip())
        return self.says.replace("{}", f"cell {number} (“{first[:50]}")

    def content(self) -> bytes:
        return self.encode(json.dumps(self.data, ensure_ascii=False, indent=1))


def _grade_id(cell: Cell) -> str:
    return (cell["metadata"].get("nbgrader") or {}).get("grade_id", "")


def _is(cell: Cell, kind: str) -> bool:
    return bool((cell["metadata"].get("nbgrader") or {}).get(kind))


def _draft(source: str, name: str) -> str:
    is_class = re.search(rf"^class {name}\b", source, re.MULTILINE)
    return f"class {name}:\n    pass" if is_class else f"def {name}(*arguments):\n    return 0"


CHANGES: dict[str, Callable[[Handed], None]] = {}
OF_FILES: set[str] = set()  # changes of the whole file, of which only one at a time makes sense


def change(fn: Callable[[Handed], None]) -> Callable[[Handed], None]:
    CHANGES[fn.__name__] = fn
    return fn


def of_file(fn: Callable[[Handed], None]) -> Callable[[Handed], None]:
    OF_FILES.add(fn.__name__)
    return change(fn)


# ── own checks ──


@change
def check_without_argument(handed):
    handed.own(f"check.{handed.exercise}()", "below")


@change
def check_of_none(handed):
    handed.own(f"check.{handed.exercise}(None)", "above")


@change
def check_of_a_draft(handed):
    name = handed.exercise
    handed.own(f"{_draft(handed.solution['source'], name)}\ncheck.{name}({name})", "above")


@change
def check_of_another_function(handed):
    handed.own(f"check.{handed.exercise}(len)", "above")


@change
def verdict_looked_at(handed):
    name = handed.exercise
    handed.own(f"verdict = check.{name}({name})\nassert verdict.passed\nprint(verdict.points, verdict)", "below")


@change
def check_in_the_solution_cell(handed):
    handed.solution["source"] += f"\n\ncheck.{handed.exercise}({handed.exercise})"


@change
def progress_asked(handed):
    handed.own("progress()")


# ── drafts and versions ──


@change
def draft_above(handed):
    cell = copy.deepcopy(handed.solution)
    cell["id"], cell["source"] = "draft1", _draft(cell["source"], handed.exercise)
    handed.cells.insert(handed.place(handed.exercise), cell)


@change
def draft_below(handed):
    """What is built on it is checked with the draft, and her own checks said so."""
    handed.lost |= built_on(handed, handed.exercise) - {handed.exercise}
    cell = copy.deepcopy(handed.solution)
    cell["id"], cell["source"] = "draft2", _draft(cell["source"], handed.exercise)
    cell["metadata"] = {}
    handed.cells.insert(handed.place(handed.exercise) + 1, cell)


@change
def draft_at_the_end(handed):
    handed.own(_draft(handed.solution["source"], handed.exercise), "end")


@change
def draft_that_is_no_python(handed):
    handed.own(f"def {handed.exercise}(:\n    ...", "above")


@change
def several_drafts(handed):
    for _ in range(3):
        handed.own(_draft(handed.solution["source"], handed.exercise), "above")


@change
def copy_of_the_solution(handed):
    cell = copy.deepcopy(handed.solution)
    cell["id"] = "copy1"
    handed.cells.insert(handed.place(handed.exercise), cell)


@change
def defined_again(handed):
    handed.own(f"old = {handed.exercise}\n{handed.exercise} = old", "below")


@change
def deleted_at_the_end(handed):
    handed.own(f"del {handed.exercise}", "end")


@change
def worked_in_a_new_cell(handed):
    source = handed.solution["source"]
    handed.solution["source"] = "# see below"
    handed.own(source, "end")


@change
def worked_above_the_skeleton(handed):
    source = handed.solution["source"]
    handed.solution["source"] = _released(handed.unit)[handed.exercise]
    handed.own(source, "above")


@change
def worked_in_the_check_cell(handed):
    cell = handed.cells[handed.place(f"{handed.exercise}_check")]
    if cell is handed.solution:
        return
    cell["source"] = handed.solution["source"] + "\n\n" + cell["source"]
    if handed.guilty is handed.solution:
        handed.guilty = cell
    handed.solution["source"] = _released(handed.unit)[handed.exercise]


@change
def a_wrong_answer(handed):
    name = handed.exercise
    if not _answered_in_its_cell(handed):
        return
    handed.solution["source"] = _draft(handed.solution["source"], name)
    handed.lost |= built_on(handed, name)


@change
def not_python(handed):
    if not _answered_in_its_cell(handed):
        return
    handed.solution["source"] = handed.solution["source"].replace(":", ":::", 1)
    handed.costs(handed.solution, "{}", *built_on(handed, handed.exercise))


def _answered_in_its_cell(handed: Handed) -> bool:
    source = handed.solution["source"]
    return f" {handed.exercise}" in source and source != _released(handed.unit)[handed.exercise]


def built_on(handed: Handed, name: str) -> set[str]:
    """The exercises of which a solution names this one, itself among them, and those that name these."""
    found = {name}
    solutions = {_grade_id(cell): cell["source"] for cell in handed.cells if _is(cell, "solution")}
    while more := {other for other, source in solutions.items() if other not in found
                   and any(re.search(rf"\b{one}\b", source) for one in found)}:
        found |= more
    return found


# ── prints, magics, errors ──


@change
def prints_in_the_solution_cell(handed):
    handed.solution["source"] += "\nprint('tried', 7 * 6)\n7 * 6"


@change
def error_above_the_function(handed):
    handed.solution["source"] = FAILS_AT_ONCE + handed.solution["source"]


@change
def error_below_the_function(handed):
    handed.solution["source"] += "\n1 / 0"


@change
def own_cell_with_an_error(handed):
    handed.own("raise RuntimeError('not done yet')")


@change
def stray_magic(handed):
    handed.solution["source"] = "%load_ext no_such_extension\n" + handed.solution["source"]


@change
def magics_and_shell(handed):
    handed.own("%matplotlib inline\n%timeit -n 1 -r 1 1 + 1\n!ls\nlen?")


@change
def timed_cell(handed):
    handed.solution["source"] = "%%time\n" + handed.solution["source"]


@change
def captured_cell(handed):
    handed.solution["source"] = "%%capture\n" + handed.solution["source"]


@change
def pip_install(handed):
    handed.own("%pip install numpy")


@change
def google_colab(handed):
    handed.set_up["source"] = "from google.colab import drive\ndrive.mount('/content/drive')\n" + handed.set_up["source"]


@change
def input_asked(handed):
    handed.own("name = input('name? ')")


# ── imports and helpers ──


@change
def import_in_the_set_up_cell(handed):
    handed.set_up["source"] = "import numpy as my_np\n" + handed.set_up["source"]
    _use(handed, "my_np.int64(3)")


@change
def import_in_a_cell_of_her_own(handed):
    handed.own("import numpy as my_np", "above")
    _use(handed, "my_np.int64(3)")


@change
def import_above_everything(handed):
    handed.insert(0, "import numpy as my_np")
    _use(handed, "my_np.int64(3)")


@change
def import_in_the_solution_cell(handed):
    handed.solution["source"] = "from itertools import *\nimport numpy as my_np\n" + handed.solution["source"]
    _use(handed, "my_np.int64(3)")


@change
def helper_above(handed):
    handed.own("def my_helper():\n    return 3", "above")
    _use(handed, "my_helper()")


@change
def helper_below(handed):
    handed.own("def my_helper():\n    return 3", "end")
    _use(handed, "my_helper()")


@change
def helper_in_a_cell_that_shows(handed):
    cell = next((cell for cell in handed.cells if "watch" in cell["metadata"].get("tags", [])), handed.set_up)
    cell["source"] = "def my_helper():\n    return 3\n\n" + cell["source"]
    _use(handed, "my_helper()")


@change
def helper_in_a_module_that_a_cell_writes(handed):
    handed.own("%%writefile my_module.py\ndef my_helper():\n    return 3", "above")
    handed.own("import my_module", "above")
    _use(handed, "my_module.my_helper()")


@change
def module_that_was_not_handed_in(handed):
    handed.costs(handed.own("from my_other_module import something"), "{}")


@change
def helper_redefined_later(handed):
    handed.own("def my_helper():\n    return 3", "above")
    handed.own("def my_helper(a, b, c):\n    return a", "end")
    _use(handed, "my_helper()")


@change
def names_taken_later(handed):
    handed.own("dist, torch, Tensor, check, math = 1, 2, 3, 4, 5", "end")


def _use(handed: Handed, expression: str) -> None:
    """Into the function, or the class's first method: what fails where the name is not there."""
    lines = handed.solution["source"].split("\n")
    name = handed.exercise
    first = next((n for n, line in enumerate(lines) if re.match(rf"(def {name}\b|    def \w+\()", line)), None)
    if first is None:
        return
    end = next(n for n in range(first, len(lines)) if lines[n].rstrip().endswith(":"))
    indent = " " * (8 if lines[first].startswith("    ") else 4)
    after = end + 1
    if lines[after].strip().startswith(('"""', 'r"""')):
        after = next(n for n in range(after, len(lines)) if lines[n].count('"""') == 2 or (
            n > after and lines[n].rstrip().endswith('"""'))) + 1
    lines.insert(after, f"{indent}assert {expression} == 3")
    handed.solution["source"] = "\n".join(lines)


# ── cells moved, merged, split, deleted ──


@change
def solution_moved_to_the_end(handed):
    handed.cells.append(handed.cells.pop(handed.place(handed.exercise)))


@change
def set_up_moved_to_the_end(handed):
    handed.cells.append(handed.cells.pop(handed.cells.index(handed.set_up)))


@change
def cells_in_reverse(handed):
    if any(cell["source"].startswith("%%writefile") for cell in handed.cells):
        handed.lost.add(handed.exercise)  # what it uses is imported before it is written
    handed.cells.reverse()


@change
def markdown_deleted(handed):
    handed.cells[:] = [cell for cell in handed.cells if cell["cell_type"] != "markdown"]


@change
def checks_deleted(handed):
    handed.cells[:] = [cell for cell in handed.cells if not _is(cell, "grade")]


@change
def what_shows_deleted(handed):
    handed.cells[:] = [cell for cell in handed.cells if "watch" not in cell["metadata"].get("tags", [])]


@change
def everything_copied_below(handed):
    again = [copy.deepcopy(cell) | {"id": f"again{number}"} for number, cell in enumerate(handed.cells)]
    handed.cells.extend(again)


@change
def merged_with_its_check(handed):
    if (place := handed.place(f"{handed.exercise}_check")) == handed.place(handed.exercise):
        return
    check = handed.cells.pop(place)
    handed.solution["source"] += "\n\n" + check["source"]


@change
def two_solutions_merged(handed):
    others = [cell for cell in handed.cells if _is(cell, "solution") and cell is not handed.solution]
    if others and _answered_in_its_cell(handed):
        other = handed.random.choice(others)
        first, second = sorted([handed.solution, other], key=handed.cells.index)
        first["source"] += "\n\n" + second["source"]
        handed.cells.remove(second)


@change
def split_within_the_function(handed):
    lines = handed.solution["source"].split("\n")
    at = handed.random.randint(1, len(lines) - 1)
    _split(handed, "\n".join(lines[:at]), "\n".join(lines[at:]))


@change
def split_before_the_function(handed):
    _split(handed, "from functools import reduce as my_reduce", handed.solution["source"])


def _split(handed: Handed, first: str, second: str) -> None:
    """As JupyterLab does: both have the metadata, the second a new id."""
    cell = handed.solution
    other = copy.deepcopy(cell) | {"id": f"split{handed.random.getrandbits(30):x}"}
    cell["source"], other["source"] = first.strip("\n"), second.strip("\n")
    handed.cells.insert(handed.cells.index(cell) + 1, other)


@change
def solution_as_markdown(handed):
    cell = handed.solution
    cell["cell_type"] = "markdown"
    for key in ("outputs", "execution_count"):
        cell.pop(key, None)


@change
def solution_as_markdown_without_names(handed):
    solution_as_markdown(handed)
    without_ids(handed)
    without_metadata(handed)


@change
def notes_in_markdown(handed):
    handed.insert(handed.place(handed.exercise), "Notes: $n-1$ steps, <b>see</b> below\n\n```python\nx = 1\n```", "markdown")
    handed.insert(3, "raw text", "raw")


@change
def what_shows_played_with(handed):
    for cell in handed.cells:
        if "watch" in cell["metadata"].get("tags", []):
            cell["source"] += "\n# what if?\n7 * 6"


# ── cells that hang, die or eat memory ──


@change
def exits(handed):
    handed.own("exit()")


@change
def system_exit(handed):
    handed.own("import sys\nsys.exit(1)")


@change
def kernel_killed(handed):
    handed.costs(handed.own("import os\nos._exit(1)", "above"), "while {}")


@change
def kernel_killed_in_the_solution_cell(handed):
    handed.solution["source"] += "\nimport os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
    handed.costs(handed.solution, "while {}")


@change
def kernel_killed_later(handed):
    handed.own("import os, threading\nthreading.Timer(0.1, os._exit, [1]).start()", "above")


@change
def memory_eaten(handed):
    handed.costs(handed.own("l = []\nwhile True: l.append('x' * 10**6)"), "{}")


@change
def disk_filled(handed):
    source = "with open('large', 'wb') as file:\n    for _ in range(10_000): file.write(bytes(1 << 20))"
    handed.costs(handed.own(source, "above"), "while {}")


@change
def hangs(handed):
    handed.costs(handed.own("while True:\n    pass"), "{}")


@change
def sleeps_in_the_solution_cell(handed):
    handed.solution["source"] = "import time\ntime.sleep(1000)\n" + handed.solution["source"]
    handed.costs(handed.solution, "{}")


@change
def hangs_and_will_not_be_interrupted(handed):
    handed.costs(handed.own("while True:\n    try:\n        while True: pass\n    except BaseException: pass"), "{}")


# ── what programs write ──


@change
def other_metadata(handed):
    odd = {"collapsed": None, "scrolled": None, "name": "", "jupyter": None, "execution": None, "editable": "yes",
           "slideshow": {"slide_type": 3}, "ExecuteTime": {"end_time": 1}, "pycharm": {}}
    for cell in handed.cells:
        cell["metadata"] |= odd
    handed.cells[3]["metadata"]["tags"] = ["a", "a", "b,c"]
    handed.data["metadata"] |= {"toc": {"base": None}, "varInspector": {}, "kernelspec": {"name": "ir", "display_name": "R"}}


@change
def without_ids(handed):
    handed.data["nbformat_minor"] = handed.random.randint(0, 4)
    for cell in handed.cells:
        cell.pop("id", None)


@change
def same_ids(handed):
    for cell in handed.cells:
        cell["id"] = "same"


@change
def new_ids(handed):
    for number, cell in enumerate(handed.cells):
        cell["id"] = f"new-{number}"


@change
def without_metadata(handed):
    for cell in handed.cells:
        cell["metadata"] = {}


@change
def from_colab(handed):
    without_ids(handed)
    handed.data["metadata"] |= {"colab": {"provenance": [], "toc_visible": True}, "accelerator": "GPU"}
    for number, cell in enumerate(handed.cells):
        cell["metadata"] = {"id": f"c{number}xYz", "outputId": "ab", "colab": {"base_uri": "https://localhost:8080/"}}


@change
def from_kaggle(handed):
    without_ids(handed)
    handed.data["metadata"]["kaggle"] = {"accelerator": "none", "dataSources": [], "isGpuEnabled": False}
    for cell in handed.cells:
        cell["metadata"] |= {"trusted": True, "_uuid": "8f2839f25d086af736a60e9eeb907d3b93b6e0e5", "_cell_guid": "b1076dfc"}


@change
def from_vs_code(handed):
    handed.data["metadata"]["language_info"] = {"name": "python", "version": "3.13.0"}
    for cell in handed.cells:
        cell["metadata"] |= {"vscode": {"languageId": "python"}}


@change
def widgets_state(handed):
    state = {f"{n:032x}": {"model_name": "IntSliderModel", "state": {"value": n}} for n in range(300)}
    handed.data["metadata"]["widgets"] = {"application/vnd.jupyter.widget-state+json": {
        "version_major": 2, "version_minor": 0, "state": state}}


@change
def large_outputs(handed):
    for cell in handed.cells:
        if cell["cell_type"] == "code":
            cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "x" * (TALKATIVE // 20)},
                               {"output_type": "display_data", "metadata": {}, "data": {"image/png": "iVBOR" * 100}}]


@change
def windows_lines(handed):
    for cell in handed.cells:
        cell["source"] = cell["source"].replace("\n", "\r\n")


@change
def blanks_at_ends_of_lines(handed):
    for cell in handed.cells:
        cell["source"] = cell["source"].replace("\n", "  \n") + "\n\n"


@of_file
def nbformat_3(handed):
    old = nbformat.convert(nbformat.reads(json.dumps(handed.data), as_version=4), 3)
    handed.encode = lambda text: nbformat.writes(old, version=3).encode()


@of_file
def sources_as_lists(handed):
    def with_lists(text):
        data = json.loads(text)
        for cell in data["cells"]:
            cell["source"] = cell["source"].splitlines(keepends=True)
        return json.dumps(data).encode()

    handed.encode = with_lists


@of_file
def windows_file(handed):
    handed.encode = lambda text: text.replace("\n", "\r\n").encode()


@of_file
def byte_order_mark(handed):
    handed.encode = lambda text: b"\xef\xbb\xbf" + text.encode()


@of_file
def utf_16(handed):
    handed.encode = lambda text: text.encode("utf-16")


@of_file
def latin_1(handed):
    handed.encode = lambda text: text.encode("latin-1", errors="replace")


@of_file
def conflict_markers(handed):
    conflict = '<<<<<<< HEAD\n   "execution_count": 3,\n=======\n   "execution_count": 4,\n>>>>>>> main\n'
    handed.encode = lambda text: re.sub(r' *"execution_count": null,\n', lambda _: conflict, text, count=3).encode()


@of_file
def trailing_comma(handed):
    handed.encode = lambda text: text.replace('\n ],\n "metadata"', ',\n ],\n "metadata"').encode()


@of_file
def torn(handed):
    """The file ends in the middle of the exercise's cell."""
    place = handed.place(handed.exercise)
    gone = {_grade_id(cell) for cell in handed.cells[place:] if _is(cell, "solution")}
    handed.lost |= set().union(*(built_on(handed, name) for name in gone))
    handed.says = "not a whole notebook"
    handed.encode = lambda text: text.encode()[:text.encode().find(json.dumps(handed.solution["source"])[:60].encode()) + 30]


@of_file
def a_blank_original_beside_it(handed):
    handed.others.append((f"{handed.unit}-Copy1.ipynb", handed.content()))
    blank = (ROOT / "notebooks" / handed.unit / f"{handed.unit}.ipynb").read_bytes()
    handed.encode = lambda text: blank
    handed.says = "-Copy1.ipynb"


@of_file
def a_blank_copy_beside_it(handed):
    blank = (ROOT / "notebooks" / handed.unit / f"{handed.unit}.ipynb").read_bytes()
    handed.others.append((f"{handed.unit} (1).ipynb", blank))


@of_file
def another_units_notebook_beside_it(handed):
    other = "01_collectives" if handed.unit != "01_collectives" else "00_start_here"
    handed.others.append((f"{other}.ipynb", (ROOT / "solutions" / other / f"{other}.ipynb").read_bytes()))


@of_file
def a_draft_of_the_notebook_beside_it(handed):
    """The same notebook, saved before the exercise was right."""
    earlier = copy.deepcopy(handed.data)
    solution = next(cell for cell in earlier["cells"] if _grade_id(cell) == handed.exercise)
    solution["source"] = _draft(solution["source"], handed.exercise)
    handed.others.append((f"{handed.unit}_old.ipynb", json.dumps(earlier).encode()))


# ── trying them ──


def _released(unit: str) -> dict[str, str]:
    cells = json.loads((ROOT / "notebooks" / unit / f"{unit}.ipynb").read_bytes())["cells"]
    return {_grade_id(cell): "".join(cell["source"]) for cell in cells if _grade_id(cell)}


def right_notebook(unit: str) -> dict[str, Any]:
    """The released notebook with every exercise solved, as plain JSON with sources in one piece."""
    data = json.loads((ROOT / "notebooks" / unit / f"{unit}.ipynb").read_bytes())
    solved = json.loads((ROOT / "solutions" / unit / f"{unit}.ipynb").read_bytes())
    sources = {_grade_id(cell): "".join(cell["source"]) for cell in solved["cells"] if _is(cell, "solution")}
    for cell in data["cells"]:
        cell["source"] = sources[_grade_id(cell)] if _is(cell, "solution") else "".join(cell["source"])
    return data


def changed(unit: str, names: tuple[str, ...], exercise: str, right: dict[str, Any] | None = None) -> Handed:
    """A right notebook (the unit's, unless it is given) after these changes."""
    data = right_notebook(unit) if right is None else copy.deepcopy(right)
    handed = Handed(unit, data, exercise, random.Random(f"{unit} {names} {exercise}"))
    for name in sorted(names, key=lambda name: name in OF_FILES):
        CHANGES[name](handed)
    return handed


def faults(handed: Handed, released: bytes, known=EXERCISES) -> list[str]:
    """What marking makes of it that it should not; nothing, if all is well."""
    remark = handed.expected_remark()
    _, record = mark_submission(handed.content(), released, again=Again(seed=1), known=known, others=handed.others)
    found = []
    for name, verdict in record["exercises"].items():
        if name not in handed.lost and verdict["points"] < verdict["max_points"]:
            found.append(f"{name} lost points: {verdict['problem'] or verdict['hints']}")
        if name == handed.exercise and name in handed.lost and verdict["points"] == verdict["max_points"]:
            found.append(f"{name} has all its points")
    if remark and not any(remark in text for text in record["remarks"]):
        found.append(f"no remark says {remark!r}: {record['remarks']}")
    return found


class Remembered:
    """Verdicts by exercise and function: the same function is tried once only, however often it is handed in."""

    def __init__(self):
        self._verdicts: dict[tuple[str, bytes], Verdict] = {}
        self._judge = Trying.verdicts

    def patched(self):
        """Within this, marking asks here."""
        def verdicts(trying: Trying, exercises, functions):
            new = [exercise for exercise in exercises if (exercise.id, functions[exercise.id]) not in self._verdicts]
            for name, verdict in (self._judge(trying, new, functions) if new else {}).items():
                self._verdicts[name, functions[name]] = verdict
            return {exercise.id: self._verdicts[exercise.id, functions[exercise.id]] for exercise in exercises}

        return mock.patch.object(Trying, "verdicts", verdicts)


def main(arguments: list[str]) -> int:
    """Every change on every unit that is named, or on all; as many random pairs. The number of faults."""
    n_marked = n_faults = 0
    units = arguments or sorted(path.name for path in (ROOT / "notebooks").iterdir() if path.is_dir())
    for unit in units:
        released = (ROOT / "notebooks" / unit / f"{unit}.ipynb").read_bytes()
        exercises = [name for name, exercise in EXERCISES.items() if exercise.unit == unit]
        chance = random.Random(unit)
        pairs = [tuple(chance.sample(sorted(CHANGES.keys() - OF_FILES), 2)) for _ in range(len(CHANGES) // 4)]
        with Remembered().patched(), mock.patch.object(running, "CELL_TIMEOUT_S", 5):
            for names in [*((name,) for name in CHANGES), *pairs]:
                exercise = chance.choice(exercises)
                n_marked += 1
                try:
                    found = faults(changed(unit, names, exercise), released)
                except Exception as error:
                    found = [f"{type(error).__name__}: {error}"]
                n_faults += bool(found)
                for text in found:
                    print(f"{unit} {exercise} {' + '.join(names)}: {text}", flush=True)
        print(f"{unit}: {n_marked} notebooks so far, {n_faults} with faults", flush=True)
    return min(n_faults, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
