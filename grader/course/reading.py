"""A submitted file as a notebook, whatever state it is in: what can be read is read, and what could not be is named."""

import contextlib
import itertools
import json
import re
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_raw_cell

MAX_BYTES, MAX_CELLS = 64 << 20, 1000
MAX_SOURCE = 2 << 20  # characters, of all cells together
MAX_METADATA = 4 << 10  # characters, of a cell; a name is among them
_MAKE = {"code": new_code_cell, "markdown": new_markdown_cell, "raw": new_raw_cell}
_CELL = re.compile(r'\{\s*"(?:attachments|cell_type|execution_count|id|metadata|source|input)"\s*:')
_CONFLICT = re.compile(r"^(?:<{7}|={7}|>{7}|\|{7})(?: .*)?$\n?", re.MULTILINE)


def read(content: bytes) -> tuple[NotebookNode, list[str]]:
    """The notebook (nbformat 4, its outputs left behind) and remarks on what was wrong with the file. Never raises."""
    remarks: list[str] = []
    if len(content) > MAX_BYTES:
        return new_notebook(), [f"the file has {len(content) >> 20} MiB, more than the {MAX_BYTES >> 20} allowed: not read"]
    cells = _cells(_text(content, remarks), remarks)
    if len(cells) > MAX_CELLS:
        remarks.append(f"the file has {len(cells):,} cells: those after the first {MAX_CELLS:,} were not read")
    read_cells = [cell for data in cells[:MAX_CELLS] if (cell := _cell(data)) is not None]
    if len(read_cells) < len(cells[:MAX_CELLS]):
        remarks.append(f"{len(cells[:MAX_CELLS]) - len(read_cells)} cells of the file are not cells of a notebook: left out")
    lengths = itertools.accumulate(len(cell.source) for cell in read_cells)
    kept = [cell for cell, length in zip(read_cells, lengths, strict=True) if length <= MAX_SOURCE]
    if len(kept) < len(read_cells):
        remarks.append(f"the cells hold more than {MAX_SOURCE:,} characters: {len(read_cells) - len(kept)} were not read")
    return new_notebook(cells=kept), remarks


def _text(content: bytes, remarks: list[str]) -> str:
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError:
        remarks.append("the file is not UTF-8: read as Latin-1")
        return content.decode("latin-1")


def _cells(text: str, remarks: list[str]) -> list[Any]:
    """The cells as plain data, from a whole notebook of any version, or from the pieces of a broken one."""
    try:
        data = json.loads(text)
        if "cells" in data:
            return list(data["cells"])
        return json.loads(json.dumps(nbformat.convert(nbformat.from_dict(data), 4)))["cells"]  # of an earlier version
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, MemoryError) as error:
        cells = _pieces(_CONFLICT.sub("", text))
        what = str(error).splitlines()[0][:100] if str(error) else type(error).__name__
        remarks.append(f"the file is not a whole notebook ({what}): "
                       + (f"{len(cells)} cells could be read" if cells else "no cell could be read"))
        return cells


def _pieces(text: str) -> list[Any]:
    """Every object in a broken file that looks like a cell."""
    decoder, pieces, at = json.JSONDecoder(strict=False), [], 0
    while match := _CELL.search(text, at):
        try:
            piece, at = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            at = match.start() + 1
            continue
        if "source" in piece or "input" in piece:  # an object: the pattern begins with a brace
            pieces.append(piece)
    return pieces


def _cell(data: Any) -> NotebookNode | None:
    """Only type, source, id and metadata are taken, and only as what they must be."""
    if not isinstance(data, dict):
        return None
    source = data.get("source", data.get("input", ""))
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    if not isinstance(source, str):
        return None
    cell = _MAKE.get(str(data.get("cell_type")), new_raw_cell)(source.encode(errors="replace").decode())
    with contextlib.suppress(RecursionError):  # of metadata nested hundreds of times
        if isinstance(metadata := data.get("metadata"), dict) and len(json.dumps(metadata)) <= MAX_METADATA:
            cell.metadata = nbformat.from_dict(metadata)
    if isinstance(name := data.get("id"), str) and re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        cell.id = name
    return cell
