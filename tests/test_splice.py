"""Splicing: whatever happened to the submitted cells, the instructor's notebook is what is marked."""

import copy

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from grader.course.splice import name_of, splice

SKELETON = "def {}(x):\n    raise NotImplementedError"


def graded(name: str, source: str, **nbgrader):
    cell = new_code_cell(source, id=name.replace("_", "-"))
    cell.metadata["nbgrader"] = {"grade_id": name, "schema_version": 3, "locked": False, "solution": False, "grade": False,
                                 "task": False} | nbgrader
    return cell


def notebook(first: str = SKELETON.format("first"), second: str = SKELETON.format("second")):
    return new_notebook(cells=[
        new_markdown_cell("# Unit", id="title"), new_code_cell("import torch", id="imports"),
        graded("first", first, solution=True),
        graded("first_check", "check.first(first)", grade=True, points=2, locked=True),
        graded("second", second, solution=True),
        graded("second_check", "check.second(second)", grade=True, points=2, locked=True)])


FIRST, SECOND = "def first(x):\n    return 'ä'", "def second(x):\n    return 2"


def spliced(change) -> tuple[dict[str, str], list[str], nbformat.NotebookNode]:
    """(source by name, remarks, notebook) after `change` to a right submission."""
    submitted = notebook(FIRST, SECOND)
    submitted = change(submitted) or submitted
    result, remarks = splice(notebook(), submitted)
    return {name_of(cell): cell.source for cell in result.cells}, remarks, result


def cut(submitted, *names):
    submitted.cells = [cell for cell in submitted.cells if name_of(cell) not in names]


def nothing(submitted):
    pass


def reversed_order(submitted):
    submitted.cells.reverse()


def checks_deleted(submitted):
    cut(submitted, "first_check", "second_check")


def windows_lines(submitted):
    for cell in submitted.cells:
        cell.source = cell.source.replace("\n", "\r\n")


def other_kernel(submitted):
    submitted.metadata["kernelspec"] = {"name": "ir", "display_name": "R", "language": "R"}


def metadata_lost(submitted):
    for cell in submitted.cells:
        cell.metadata.clear()


def copied_into_a_new_notebook(submitted):
    return new_notebook(cells=[new_code_cell(cell.source) for cell in submitted.cells if cell.cell_type == "code"])


def merged_into_one(submitted):
    cut(submitted, "second")
    submitted.cells[2].source = FIRST + "\n\n" + SECOND


def written_below_the_skeleton(submitted):
    submitted.cells[4].source = SKELETON.format("second")
    submitted.cells.insert(5, new_code_cell("%timeit 1\n" + SECOND))


def turned_into_markdown(submitted):
    source, metadata = submitted.cells[4].source, submitted.cells[4].metadata
    submitted.cells[4] = new_markdown_cell(source, id="second", metadata=metadata)


def huge_output(submitted):
    submitted.cells[2].outputs = [nbformat.v4.new_output("stream", text="x" * 50_000_000)]


def old_format(submitted):
    return nbformat.convert(nbformat.convert(submitted, 3), 4)


@pytest.mark.parametrize("change", [nothing, reversed_order, checks_deleted, windows_lines, other_kernel, metadata_lost,
                                    copied_into_a_new_notebook, merged_into_one, written_below_the_skeleton,
                                    turned_into_markdown, huge_output, old_format])
def test_a_right_submission_stays_right(change):
    sources, _, result = spliced(change)
    values = {}
    for cell in result.cells:
        if cell.cell_type == "code" and name_of(cell) in ("first", "second"):
            code = "\n".join(line for line in cell.source.split("\n") if not line.startswith("%"))
            exec(code, values)
            check = next(c for c in result.cells if name_of(c) == name_of(cell) + "_check")
            assert result.cells.index(check) > result.cells.index(cell)
            assert values[name_of(cell)](0) == {"first": "ä", "second": 2}[name_of(cell)]
    assert sources["first_check"] == "check.first(first)" and "\r" not in "".join(sources.values())
    assert sum(len(str(cell.get("outputs", ""))) for cell in result.cells) < 10_000
    assert "kernelspec" not in result.metadata


# ── checks belong to the instructor ──


def checks_of(submitted):
    return [cell for cell in submitted.cells if name_of(cell).endswith("_check")]


def checks_skipped(submitted):
    for cell in checks_of(submitted):
        cell.metadata["tags"] = ["skip-execution"]


def checks_silenced(submitted):
    for cell in checks_of(submitted):
        cell.source = "pass"


def points_printed(submitted):
    for cell in checks_of(submitted):
        cell.source = "4.0"


def checks_unlocked(submitted):
    for cell in checks_of(submitted):
        cell.metadata.nbgrader |= {"points": 100, "locked": False, "grade_id": name_of(cell)}
        cell.source = "print('ok')"


def checks_duplicated(submitted):
    for cell in checks_of(submitted):
        twin = copy.deepcopy(cell)
        twin.source, twin.id = "pass", f"{cell.id}-twin"
        submitted.cells.append(twin)


@pytest.mark.parametrize("change", [checks_deleted, checks_skipped, checks_silenced, points_printed, checks_unlocked,
                                    checks_duplicated])
@pytest.mark.parametrize("written", [(FIRST, SECOND), ()], ids=["right", "blank"])
def test_whatever_is_done_to_checks_the_same_is_marked(change, written):
    plain, changed = notebook(*written), notebook(*written)
    change(changed)
    before, after = (splice(notebook(), submitted)[0] for submitted in (plain, changed))
    assert [cell for cell in after.cells if cell.metadata] == [cell for cell in before.cells if cell.metadata]
    assert {cell.source for cell in after.cells if not cell.metadata} <= {"# Unit", "import torch", "pass"}


# ── what is odd is named ──


@pytest.mark.parametrize("change, words", [
    (merged_into_one, "the solution cell 'second' is missing: another cell that defines second was used"),
    (written_below_the_skeleton, "the solution cell 'second' is not written in: another cell that defines second was used"),
    (turned_into_markdown, "the solution cell 'second' is a markdown cell: taken as code"),
    (lambda s: cut(s, "second"), "the solution cell 'second' is missing"),
    (lambda s: s.cells.append(copy.deepcopy(s.cells[2])), "there are 2 solution cells 'first': the first one counts"),
    (lambda s: s.cells[3].update(source="pass"), "changes to the cell 'first_check', which is not a solution cell"),
])
def test_what_was_not_as_it_should_be_is_named(change, words):
    def changed(submitted):
        change(submitted)

    assert any(words in remark for remark in spliced(changed)[1])


def test_extra_cells_come_without_metadata_and_stay_in_place():
    def add(submitted):
        extra = new_code_cell("helper = 1")
        extra.metadata.update({"tags": ["skip-execution"], "nbgrader": {"grade_id": "mine", "grade": True, "points": 99}})
        submitted.cells.insert(4, extra)

    _, remarks, result = spliced(add)
    index = next(i for i, cell in enumerate(result.cells) if cell.source == "helper = 1")
    assert result.cells[index].metadata == {} and name_of(result.cells[index - 1]) == "first_check" and remarks == []
