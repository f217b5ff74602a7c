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
    done = splice(notebook(), submitted)
    return {name_of(cell): cell.source for cell in done.notebook.cells}, done.remarks, done.notebook


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
    before, after = (splice(notebook(), submitted) for submitted in (plain, changed))
    assert [cell for cell in after.notebook.cells if cell.metadata] == [
        cell for cell in before.notebook.cells if cell.metadata]
    assert [step.hands_over for step in after.orders[0] if step.hands_over] == ["first", "second"]
    own = {cell.source for cell in after.notebook.cells if not cell.metadata}
    assert own <= {"# Unit", "import torch", "pass", "4.0", "print('ok')"}


# ── the last one counts, and nothing else is lost ──


def run_in_order(change) -> list[str]:
    """The sources that are run, in order; a check as its exercise's name."""
    submitted = notebook(FIRST, SECOND)
    change(submitted)
    order, *_ = splice(notebook(), submitted).orders
    return [step.hands_over or step.source for step in order]


def copy_of(cell, source: str):
    twin = copy.deepcopy(cell)
    twin.source, twin.id = source, f"{cell.id}-twin"
    return twin


DRAFT = "def first(x):\n    return None"


@pytest.mark.parametrize("change, expected", [
    (lambda s: s.cells.insert(2, copy_of(s.cells[2], DRAFT)), ["import torch", DRAFT, FIRST, "first", SECOND, "second"]),
    (lambda s: s.cells.insert(2, new_code_cell(DRAFT)), ["import torch", DRAFT, FIRST, "first", SECOND, "second"]),
    (lambda s: s.cells[1].update(source="import math\nimport torch"),
     ["import torch", "import math\nimport torch", FIRST, "first", SECOND, "second"]),
    (lambda s: s.cells[3].update(source="helper = 1"),
     ["import torch", FIRST, "helper = 1", "first", SECOND, "second"]),
    (lambda s: s.cells.__setitem__(slice(2, 3), [copy_of(s.cells[2], part) for part in FIRST.split("\n")]),
     ["import torch", FIRST, "first", SECOND, "second"]),
    (lambda s: s.cells.__setitem__(slice(2, 3), [copy_of(s.cells[2], "helper = 1"), s.cells[2]]),
     ["import torch", "helper = 1", FIRST, "first", SECOND, "second"]),
    (lambda s: (s.cells[2].update(source="# see below"), s.cells.append(new_code_cell(FIRST))),
     ["import torch", "# see below", "first", SECOND, "second", FIRST]),
], ids=["draft above", "own draft", "set-up changed", "check changed", "split within", "split before", "new cell"])
def test_what_is_run(change, expected):
    assert run_in_order(change) == expected


def test_cells_in_another_order_are_run_in_both_orders():
    submitted = notebook(FIRST, SECOND)
    submitted.cells.append(submitted.cells.pop(2))
    released, hers = ([step.hands_over or step.source for step in order] for order in splice(notebook(), submitted).orders)
    assert released == ["import torch", FIRST, "first", SECOND, "second"]
    assert hers == ["import torch", "first", SECOND, "second", FIRST]


def test_what_only_shows_things_gives_what_is_used_and_no_more():
    def with_watch(first: str):
        unit = notebook(first, SECOND)
        shows = new_code_cell("def helper():\n    return 3\n\nrun = run_ranks(helper, 4)", id="shows")
        shows.metadata["tags"] = ["watch"]
        unit.cells.insert(2, shows)
        return unit

    for first, expected in ((FIRST, 0), ("def first(x):\n    return helper()", 1)):
        order, *_ = splice(with_watch(SKELETON.format("first")), with_watch(first)).orders
        assert sum("def helper" in step.source for step in order) == expected
        assert not any("run_ranks" in step.source for step in order)


# ── cells are known without their names ──


def without_ids(submitted):
    for cell in submitted.cells:
        del cell["id"]
    metadata_lost(submitted)


def same_ids(submitted):
    for cell in submitted.cells:
        cell.id = "same"


@pytest.mark.parametrize("change", [without_ids, same_ids, metadata_lost])
def test_released_cells_are_known_by_what_they_say(change):
    def changed(submitted):
        submitted.cells[0].source = "# Unit\n\n(Ann)"
        change(submitted)

    _, _, result = spliced(changed)
    assert [name_of(cell) for cell in result.cells] == [name_of(cell) for cell in notebook().cells]


# ── what is odd is named ──


@pytest.mark.parametrize("change, words", [
    (merged_into_one, "the cell of second is missing: cell 3 (“def first(x):”), which defines it, counts"),
    (written_below_the_skeleton, "the cell of second is not written in: cell 6 (“%timeit 1”), which defines it, counts"),
    (turned_into_markdown, "cell 5 (“def second(x):”) is a markdown cell: it was run as code"),
    (lambda s: cut(s, "second"), "nothing in the notebook defines second, and the cell for it is missing"),
    (lambda s: s.cells.append(copy_of(s.cells[2], DRAFT)),
     "first is defined in cell 3 (“def first(x):”) and in cell 7 (“def first(x):”): the last one counts"),
    (lambda s: s.cells[3].update(source="pass"), "cell 4 (“pass”) is no longer the check of first as it was released"),
    (lambda s: s.cells.__setitem__(slice(2, 3), [copy_of(s.cells[2], part) for part in FIRST.split("\n")]),
     "cell 3 (“def first(x):”) and the cell after it are one that was split"),
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
