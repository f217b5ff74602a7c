"""What is taken from another unit's notebook: definitions that are written, and nothing else."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from utils.notebook.other_units import written_in


@pytest.fixture
def folder(tmp_path):
    cells = [
        new_markdown_cell("def in_text(): pass"),
        new_code_cell("import math\nraise SystemExit('this must not run')"),
        new_code_cell("def helper(x):\n    return math.sqrt(x)"),
        new_code_cell("def written(x):\n    return helper(x) + 1"),
        new_code_cell("class Skeleton:\n    def go(self):\n        raise NotImplementedError()"),
        new_code_cell("def needs_a_run(steps=STEPS):\n    return steps"),
        new_code_cell("%%time\nthis is no python"),
        new_code_cell("def watched():\n    return 1", metadata={"tags": ["watch"]}),
    ]
    (tmp_path / "07_unit").mkdir()
    nbformat.write(new_notebook(cells=cells), tmp_path / "07_unit" / "07_unit.ipynb")
    return tmp_path


def test_a_written_function_comes_with_its_helpers(folder):
    assert written_in("07_unit", "written", folder)(9) == 4


@pytest.mark.parametrize("name", ["Skeleton", "in_text", "needs_a_run", "watched", "absent"])
def test_what_is_not_written_is_none(folder, name):
    assert written_in("07_unit", name, folder) is None


def test_a_unit_that_is_not_there_is_none(folder):
    assert written_in("08_unit", "written", folder) is None
