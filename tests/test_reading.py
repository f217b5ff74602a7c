"""Reading a submitted file in whatever state: what can be read is read, the rest is named, nothing raises."""

import copy
import json
import random
from pathlib import Path

import nbformat
import pytest

from grader.course import reading
from grader.sandbox import accept

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


def test_names_tags_and_ids_survive():
    notebook, _ = reading.read(WHOLE)
    kept = [(c.id, {key: value for key, value in c.metadata.items() if key in ("nbgrader", "tags")}) for c in CELLS]
    assert [(c.id, c.metadata) for c in notebook.cells] == kept


@pytest.mark.parametrize("metadata, kept", [
    ({"tags": ["a", "a", "b", "a,c", "", None, 3]}, {"tags": ["a", "b"]}),
    ({"tags": None, "scrolled": None, "collapsed": None, "name": "", "jupyter": None, "execution": None}, {}),
    ({"tags": "a", "nbgrader": "x", "format": 3, "colab": {"x": []}, "id": 7, "": {"": ""}}, {}),
    ({"nbgrader": {"grade_id": "half \ud83d", "1": [0]}, "slideshow": []}, {"nbgrader": {"grade_id": "half ?", "1": [0]}}),
    ({"outputs": "x" * 100_000, "tags": ["a"]}, {"tags": ["a"]}),
    ([], {}), ("text", {}), (None, {}),
], ids=str)
def test_metadata_is_cleaned_and_not_validated(metadata, kept):
    cell = {"cell_type": "code", "source": "x = 1", "metadata": metadata, "attachments": None, "outputs": 3, "id": None}
    notebook, remarks = reading.read(json.dumps({"cells": [cell], "metadata": None}).encode())
    assert (notebook.cells[0].metadata, notebook.cells[0].source, remarks) == (kept, "x = 1", [])
    nbformat.validate(notebook)
    nbformat.writes(notebook).encode()


@pytest.mark.parametrize("notebook, sources", [
    ({"worksheets": [{"cells": [{"cell_type": "code", "input": ["a\n", "b"]}]}, None, {"cells": 3}]}, ["a\nb"]),
    ({"nbformat": 3, "worksheets": [{"cells": [{"cell_type": "heading", "level": 2, "source": "a"}]}]}, ["## a"]),
    ({"nbformat": 2, "worksheets": [{"cells": [{"cell_type": "html", "source": "a"}]}]}, ["a"]),
    ({"nbformat": 1, "cells": [{"cell_type": "code", "code": "a"}, {"cell_type": "text", "text": "b"}]}, ["a", "b"]),
    ({"cells": [{"cell_type": "code", "source": source, "id": "same"} for source in "ab"]}, ["a", "b"]),
], ids=["nbformat 3", "heading", "nbformat 2", "nbformat 1", "same ids"])
def test_notebooks_of_any_age_are_read_whatever_they_lack(notebook, sources):
    assert read(json.dumps(notebook).encode()) == (sources, "")


def test_nothing_that_happens_to_a_file_makes_reading_it_fail():
    """A few cells of each kind, with bytes and values changed at random."""
    chance = random.Random(42)
    few = json.loads(WHOLE) | {"cells": json.loads(WHOLE)["cells"][:12]}
    odd = [None, True, 0, -1, 1e400, 10**400, "", "\ud800", "a,b", [], [[]], {}, {"": None}, "code", ["x", 3],
           {"tags": ["a", "a"]}]
    for _ in range(400):
        notebook = copy.deepcopy(few)
        for _ in range(chance.randint(0, 3)):
            place = notebook
            while True:
                key = chance.choice(list(place) if isinstance(place, dict) else range(len(place)))
                if not isinstance(place[key], (dict, list)) or not place[key] or chance.random() < 0.2:
                    break
                place = place[key]
            place[key] = copy.deepcopy(chance.choice(odd))
        content = bytearray(json.dumps(notebook).encode(chance.choice(["utf-8", "utf-8", "utf-16", "utf-32-le"])))
        for _ in range(chance.choice([0, 0, 1, 5])):
            content[chance.randrange(len(content))] = chance.randrange(256)
        if chance.random() < 0.2:
            del content[chance.randrange(len(content)):]
        made, remarks = reading.read(bytes(content))
        nbformat.validate(made)
        nbformat.writes(made).encode()
        " ".join(remarks).encode()


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
    (b"", "the file is empty (0 bytes)"),
    (b" \n", "the file is empty (2 bytes of blank space)"),
    (bytes(100), "100 bytes, all of them zero"),
    (b"\n<!DOCTYPE html><title>Log in</title>", "a web page (HTML), not a notebook: perhaps the login page"),
    (b'<html><body class="jp-Notebook">', "exported as a web page"),
    (b"PK\x03\x04...", "a ZIP archive"),
    (b"%PDF-1.7 ...", "a PDF document, not a notebook"),
    (b"import torch\n\ndef reduce(x):\n    return x\n", "Python code, not a notebook"),
    (b"\x00\xff" * 20, "not UTF-8"),
    (b"[" * 100_000, "no cell could be read"),
    (b"[]", "not a whole notebook"), (b'{"cells": [{"source": "x', "it breaks off before its end"),
    (b'{"cells": [\n,]}', "its line 2 is not JSON"),
    (b'{"cells": null}', "not a whole notebook"),
    (b'{"cells": 3}', "not a whole notebook"),
    (b'{"nbformat": 2, "worksheets": "none"}', "not a whole notebook"),
    (b'{"cells": []}', "a notebook without any cell"),
])
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


def test_half_characters_of_outputs_do_not_reach_the_file():
    half = "\ud83d"
    outputs = accept.outputs(json.dumps([
        {"output_type": "stream", "text": half}, {"output_type": "display_data", "data": {"text/plain": half}},
        {"output_type": "error", "ename": half, "evalue": half, "traceback": [half]}]).encode())
    cell = nbformat.v4.new_code_cell(outputs=outputs)
    assert nbformat.writes(nbformat.v4.new_notebook(cells=[cell])).encode().count(b"?") == 5
