"""Reading a submitted file in whatever state: what can be read is read, the rest is named, nothing raises."""

import json
from pathlib import Path

import nbformat
import pytest

from grader.course import reading

ROOT = Path(__file__).resolve().parent.parent
WHOLE = (ROOT / "notebooks" / "01_collectives" / "01_collectives.ipynb").read_bytes()
CELLS = nbformat.reads(WHOLE.decode(), as_version=4).cells
SOURCES = [cell.source for cell in CELLS]


def read(content: bytes):
    notebook, remarks = reading.read(content)
    return [cell.source for cell in notebook.cells], " ".join(remarks)


@pytest.mark.parametrize("content", [
    WHOLE,
    b"\xef\xbb\xbf" + WHOLE,
    WHOLE.decode().encode("utf-16"),
    WHOLE.replace(b"\n", b"\r\n"),
    json.dumps(json.loads(WHOLE) | {"nbformat_minor": 99}).encode(),
    nbformat.writes(nbformat.convert(nbformat.reads(WHOLE.decode(), as_version=4), 3)).encode(),
], ids=["as it is", "byte order mark", "UTF-16", "Windows lines", "a later minor version", "nbformat 3"])
def test_whole_notebooks_are_read_without_a_word(content):
    assert read(content) == (SOURCES, "")


def test_metadata_and_ids_survive():
    notebook, _ = reading.read(WHOLE)
    assert [(c.id, c.metadata) for c in notebook.cells] == [(c.id, c.metadata) for c in CELLS]


def test_a_notebook_cut_off_in_the_middle_keeps_its_first_half():
    sources, remarks = read(WHOLE[:len(WHOLE) // 2])
    assert len(sources) > 50 and sources == SOURCES[:len(sources)]
    assert f"{len(sources)} cells could be read" in remarks


def test_marks_of_a_merge_conflict_are_overlooked():
    lines = WHOLE.decode().splitlines(keepends=True)
    middle = next(i for i, line in enumerate(lines) if '"source"' in line and i > 200)
    torn = ["<<<<<<< HEAD\n", lines[middle], "=======\n", lines[middle], ">>>>>>> theirs\n"]
    torn = [*lines[:middle], *torn, *lines[middle + 1:]]
    sources, remarks = read("".join(torn).encode())
    assert len(sources) >= len(SOURCES) - 2 and "not a whole notebook" in remarks


@pytest.mark.parametrize("content, words", [
    (b"", "no cell could be read"),
    (b"\x00\xff" * 20, "not UTF-8"),
    (b"[" * 100_000, "no cell could be read"),
    (b"[]", "not a whole notebook"),
    (b'{"cells": null}', "not a whole notebook"),
    (b'{"cells": 3}', "not a whole notebook"),
    (b'{"nbformat": 2, "worksheets": "none"}', "not a whole notebook"),
], ids=["empty", "bytes", "deep", "a list", "no cells", "a number of cells", "no worksheets"])
def test_what_is_no_notebook_gives_none_and_says_so(content, words):
    sources, remarks = read(content)
    assert sources == [] and words in remarks


def test_cells_of_the_wrong_shape_are_left_out():
    cells = [1, {"cell_type": "code", "source": 3},
             {"cell_type": 5, "source": ["a", 2], "metadata": "x", "id": "not an id!"}]
    sources, remarks = read(json.dumps({"cells": cells, "nbformat": 4}).encode())
    assert sources == ["a"] and "2 cells of the file are not cells" in remarks


def test_outputs_are_left_behind():
    noisy = json.loads(WHOLE)
    for cell in noisy["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "x" * 100_000}]
    notebook, remarks = reading.read(json.dumps(noisy).encode())
    assert remarks == [] and not any(cell.get("outputs") for cell in notebook.cells)


def test_a_file_beyond_all_bounds_is_not_read(monkeypatch):
    monkeypatch.setattr(reading, "MAX_BYTES", 10)
    sources, remarks = read(WHOLE)
    assert sources == [] and "more than" in remarks
