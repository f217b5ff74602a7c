"""Begin a new exercise: its folder, its four cells in the solution notebook, one mistake with its hint, all to be written.

In a unit that is not there yet, such as 12_long_context, the unit is begun, too: its notebook and its row in the README.

Until they are, its tests fail and say what is missing; CONTRIBUTING.md goes through it step by step.
"""

import argparse
import ast
import keyword
import re
import sys
import textwrap
from pathlib import Path
from string import Template

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from grader.course.cell import name_of

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = Path(__file__).parent / "templates"
POINTS = 4  # of an exercise whose values and technique are judged


class Refused(ValueError):
    """Nothing was written."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("unit", help="for example 03_zero1")
    parser.add_argument("exercise", help="the function's name, for example tree_all_gather")
    parser.add_argument("--after", metavar="EXERCISE", help="where in the unit it stands (default: last)")
    parser.add_argument("--title", help="the heading of its contract (default: the name in words)")


def run(arguments: argparse.Namespace) -> int:
    try:
        written = begin(ROOT, arguments.unit, arguments.exercise, arguments.title, arguments.after)
    except Refused as error:
        print(f"Nothing was written: {error}", file=sys.stderr)
        return 2
    print("\n".join(["Begun, to be written:", *(f"  {path}" for path in written),
                     f"Then: make notebooks ARGS={arguments.unit}, and pytest tests -k {arguments.exercise} until all of it "
                     "passes. CONTRIBUTING.md says what goes where."]))
    return 0


def begin(root: Path, unit: str, name: str, title: str | None = None, after: str | None = None) -> list[str]:
    """Write the files of an exercise, which comes after another one, or last.

    Returns: their paths.  Raises: Refused, saying what was expected.
    """
    begins = _require(root, unit, name)
    if begins and after:
        raise Refused(f"{unit} is a new unit, and has no exercise {after!r} that another could come after")
    if begins:
        _begin_unit(root, unit)
    order = root / "grader" / "exercises" / unit / "__init__.py"
    names = _order(order)
    after = after or (names[-1] if names else None)
    if after and after not in names:
        raise Refused(f"{unit} has no exercise {after!r} that a new one could come after; it has "
                      f"{', '.join(names) or 'none yet'}")
    words = {"name": name, "title": title or name.replace("_", " ").capitalize()}
    folder = root / "grader" / "exercises" / unit / name
    files = [folder / file for file in ("exercise.py", "technique.py", "mistakes.py", "hints.toml")]
    folder.mkdir()
    for path in files:
        path.write_text(Template((TEMPLATES / f"{path.name}.txt").read_text()).substitute(words))
    notebook = root / "solutions" / unit / f"{unit}.ipynb"
    _add_cells(notebook, name, words["title"], after)
    names.insert(names.index(after) + 1 if after else 0, name)
    quoted = ", ".join(f'"{listed}"' for listed in names)
    rows = textwrap.fill(quoted, 120, initial_indent="    ", subsequent_indent="    ")
    order.write_text(f"{order.read_text().partition('ORDER')[0]}ORDER = (\n{rows},\n)\n")
    return [str(path.relative_to(root)) for path in (*[root / "README.md"] * begins, notebook, order, *files)]


def _order(file: Path) -> list[str]:
    """The names of a unit's exercises."""
    order, = (node.value for node in ast.parse(file.read_text()).body if isinstance(node, ast.Assign))
    return list(ast.literal_eval(order))


def _require(root: Path, unit: str, name: str) -> bool:
    """Whether the unit is a new one.  Raises: Refused."""
    units = sorted(folder.parent.name for folder in (root / "grader" / "exercises").glob("[0-9]*/__init__.py"))
    is_new = unit not in units
    if is_new and (not re.fullmatch(r"\d\d_[a-z0-9_]+", unit) or unit[:2] in {known[:2] for known in units}):
        raise Refused(f"there is no unit {unit!r}; expected one of {', '.join(units)}, or a new one such as "
                      f"{int(units[-1][:2]) + 1:02}_its_topic")
    if not (name.isascii() and name.isidentifier()) or keyword.iskeyword(name):
        raise Refused(f"{name!r} cannot be a function's name; expected letters, digits and underscores")
    if list((root / "grader" / "exercises").glob(f"[0-9]*/{name}")):
        raise Refused(f"there is an exercise {name!r} already, and checks go by the name alone: choose another")
    return is_new


def _begin_unit(root: Path, unit: str) -> None:
    """An empty one: its notebook, its folder of exercises, its row in the README's table."""
    title = unit[3:].replace("_", " ").capitalize()
    notebook = root / "solutions" / unit / f"{unit}.ipynb"
    notebook.parent.mkdir()
    others = nbformat.read(min((root / "solutions").glob("*/*.ipynb")), as_version=4)
    nbformat.write(new_notebook(cells=_unit_cells(unit, title), metadata=others.metadata), notebook)
    folder = root / "grader" / "exercises" / unit
    folder.mkdir()
    (folder / "__init__.py").write_text(f'"""Unit {unit[:2]}: {title.lower()}."""\n\nORDER = ()\n')
    readme = root / "README.md"
    rows = readme.read_text(encoding="utf-8").split("\n")
    last = max(number for number, row in enumerate(rows) if row.startswith("| [") and "(notebooks/" in row)
    rows.insert(last + 1, f"| [{unit[:2]} {title}](notebooks/{unit}/{unit}.ipynb) | (to be written) | read, 0 min | 1 h |")
    readme.write_text("\n".join(rows), encoding="utf-8")


def _unit_cells(unit: str, title: str) -> list[NotebookNode]:
    """What every unit begins and ends with; its exercises come before the end."""
    begins = (f"# {unit[:2]} · {title}\n\n**The question of the unit, in one sentence?**\n\nWhat you need to know, what you "
              "will build, and what you will see. (To be written.)\n\n**Core path** (★): 0 minutes of reading.")
    setup = ("import torch\nimport torch.distributed as dist\n\n"
             "from grader import check, progress\nfrom utils import Predictions, run_ranks")
    guesses = ("# First your guesses, then how far you are and what comes next. Nobody else sees this, and it isn't a "
               "mark.\ndisplay(predict.table())\nprogress()")
    core, watch = {"tags": ["core"]}, {"tags": ["watch"]}
    return [new_markdown_cell(begins, id="title", metadata=core), new_code_cell(setup, id="setup"),
            new_code_cell(f'predict = Predictions("{unit}")', id="predictions", metadata=watch),
            new_code_cell(guesses, id="guesses", metadata=watch),
            new_markdown_cell("## What we learned\n\n- (To be written.)", id="learned", metadata=core)]


def _add_cells(path: Path, name: str, title: str, after: str | None) -> None:
    """Behind the check of the exercise `after`; a unit's first one before the cell of guesses, with which it ends."""
    notebook = nbformat.read(path, as_version=4)
    ids = [cell.id for cell in notebook.cells]
    at = 1 + [name_of(cell) for cell in notebook.cells].index(f"{after}_check") if after else ids.index("guesses")
    notebook.cells[at:at] = _cells(name, title)
    nbformat.write(notebook, path)


def _cells(name: str, title: str) -> list[NotebookNode]:
    """Contract, skeleton with its solution, watch, check."""
    solution = {"grade": False, "grade_id": name, "locked": False, "schema_version": 3, "solution": True, "task": False}
    check = solution | {"grade": True, "grade_id": f"{name}_check", "locked": True, "points": POINTS, "solution": False}
    contract = (f"### {title}\n\nfurther · ●●○○○ · 10 minutes · about 6 lines\n\n"
                "Shapes in and out, what each rank returns, which bytes may move. (To be written.)")
    ladder = ("a nudge", "the idea", "almost the code")
    contract += "".join(f"\n\n<details><summary>Hint {number}: {rung}</summary>\n\n(To be written.)\n\n</details>"
                        for number, rung in enumerate(ladder, 1))
    skeleton = (f'def {name}(x: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:\n    """What it returns."""\n'
                f'    ### BEGIN SOLUTION\n    raise NotImplementedError("{name}: the reference")\n    ### END SOLUTION')
    watch = f"# What does each rank hold?\n# (to be written: run_ranks({name}, 4) on a small input, and its trace)"
    return [new_markdown_cell(contract, id=f"{name}-contract"),
            new_code_cell(skeleton, id=name, metadata={"nbgrader": solution}),
            new_code_cell(watch, id=f"{name}-watch", metadata={"tags": ["watch"]}),
            new_code_cell(f"check.{name}({name})", id=f"{name}-check", metadata={"nbgrader": check})]
