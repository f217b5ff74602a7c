"""The student's solutions in the instructor's notebook: what is graded is never what the student says is graded."""

import ast
import copy
import re
from collections import defaultdict

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

_MAGIC = re.compile(r"^([^\S\n]*)[%!].*", re.MULTILINE)


def splice(template: NotebookNode, submitted: NotebookNode) -> tuple[NotebookNode, list[str]]:
    """The template with the student's solution cells and extra cells, and remarks on what was not used.

    Solution cells are found by grade_id, then by cell id; where that finds none that was written in, by the function that a
    cell defines. Of several, the first that was written in counts. Extra cells keep their source only, without metadata and
    tags, and stay behind the cell that they followed; those in markdown are shown as they were typed.
    """
    remarks: list[str] = []
    submitted = copy.deepcopy(submitted)
    for cell in submitted.cells:
        cell.source = cell.source.replace("\r\n", "\n").replace("\r", "\n")
    by_name = _by_name(submitted)
    extras = _extras(template, submitted)
    cells = list(extras.pop(None, []))
    for cell in template.cells:
        name = name_of(cell)
        spliced = copy.deepcopy(cell)
        if is_solution(cell):
            spliced.source = _solution(cell, by_name.get(name, []), submitted.cells, remarks)
        elif any(other.source != cell.source for other in by_name.get(name, [])):
            remarks.append(f"changes to the cell {name!r}, which is not a solution cell, were not used")
        cells += [spliced, *extras.pop(name, [])]
    result = copy.deepcopy(template)
    result.cells = cells
    return result, remarks


def is_solution(cell: NotebookNode) -> bool:
    return bool(_nbgrader(cell).get("solution", False))


def is_check(cell: NotebookNode) -> bool:
    return bool(_nbgrader(cell).get("grade", False))


def name_of(cell: NotebookNode) -> str:
    """The grade_id, or the cell id where there is none."""
    return str(_nbgrader(cell).get("grade_id") or cell.get("id", ""))


def exercise_of(cell: NotebookNode) -> str:
    """The exercise that a check cell is about."""
    return name_of(cell).removesuffix("_check")


def _nbgrader(cell: NotebookNode) -> dict:
    """nbgrader's metadata; a student can have put anything there."""
    metadata = cell.metadata.get("nbgrader", {})
    return metadata if isinstance(metadata, dict) else {}


def _by_name(submitted: NotebookNode) -> dict[str, list[NotebookNode]]:
    by_name: dict[str, list[NotebookNode]] = defaultdict(list)
    for cell in submitted.cells:
        for name in {name_of(cell), str(cell.get("id", ""))}:
            by_name[name].append(cell)
    return by_name


def _solution(cell: NotebookNode, candidates: list[NotebookNode], all_cells: list[NotebookNode],
              remarks: list[str]) -> str:
    name = name_of(cell)
    written = [c for c in candidates if c.source.strip() not in ("", cell.source.strip())]
    if len(written) > 1:
        remarks.append(f"there are {len(written)} solution cells {name!r}: the first one counts")
    if written:
        if written[0].cell_type != "code":
            remarks.append(f"the solution cell {name!r} is a {written[0].cell_type} cell: taken as code")
        return written[0].source
    defining = [c for c in all_cells if c.cell_type == "code" and c.source.strip() != cell.source.strip()
                and name in _functions(c.source)]
    if defining:
        remarks.append(f"the solution cell {name!r} is {'not written in' if candidates else 'missing'}: another cell that "
                       f"defines {name} was used")
        return defining[0].source
    if not candidates:
        remarks.append(f"the solution cell {name!r} is missing")
    return cell.source


def _functions(source: str) -> set[str]:
    """Names that a cell defines at its top level, whatever its magics do; none if it is not Python."""
    try:
        tree = ast.parse(_MAGIC.sub(r"\1", source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    defined = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    assigned = {target.id for node in tree.body if isinstance(node, ast.Assign) for target in node.targets
                if isinstance(target, ast.Name)}
    return defined | assigned


def _extras(template: NotebookNode, submitted: NotebookNode) -> dict[str | None, list[NotebookNode]]:
    """The student's own cells, by the name of the template's cell that they follow (None: they come first)."""
    anchors = {name_of(cell): name_of(cell) for cell in template.cells}
    anchors |= {str(cell.get("id", "")): name_of(cell) for cell in template.cells}
    extras: dict[str | None, list[NotebookNode]] = defaultdict(list)
    anchor = None
    for cell in submitted.cells:
        if name_of(cell) in anchors:
            anchor = anchors[name_of(cell)]
        elif cell.cell_type == "code":
            extras[anchor].append(new_code_cell(cell.source))
        elif cell.cell_type == "markdown":
            extras[anchor].append(new_markdown_cell(_as_typed(cell.source)))
    return extras


def _as_typed(text: str) -> str:
    """Markdown that shows a text as it was typed: nothing in it is a tag, a link or mathematics, for a browser to act on."""
    return f"<pre>{''.join(map(_harmless, text))}</pre>"


def _harmless(letter: str) -> str:
    """Not punctuation, to markdown or to HTML; an empty line would end the block."""
    return letter if letter.isalnum() or letter == " " else f"&#{ord(letter)};"
