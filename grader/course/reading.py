"""A submitted file as a notebook, whatever state it is in: what can be read is read, and what could not be is named."""

import ast
import itertools
import json
import re
from typing import Any

from nbformat import NotebookNode, from_dict
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_raw_cell

from grader.course.shown import plain, whole

MAX_BYTES, MAX_CELLS = 64 << 20, 1000
MAX_SOURCE = 2 << 20  # characters, of all cells together
MAX_METADATA = 4 << 10  # characters, of what is kept of a cell's; a name is among them
_MAKE = {"code": new_code_cell, "markdown": new_markdown_cell, "heading": new_markdown_cell, "text": new_markdown_cell,
         "html": new_markdown_cell}  # the last three in notebooks of nbformat 1 to 3
_SOURCES = ("source", "input", "code", "text")  # the last three there too
_CELL = re.compile(r'\{\s*"(?:attachments|cell_type|execution_count|id|metadata|source|input)"\s*:')
_CONFLICT = re.compile(r"^(?:<{7}|={7}|>{7}|\|{7})(?: .*)?$\n?", re.MULTILINE)
_NOT_A_NOTEBOOK = ", not a notebook"
TORN = "the file is not a whole notebook"  # how the remark on such a file begins
_ARCHIVE = f"an archive{_NOT_A_NOTEBOOK}: unpack it and look for the notebook in it"
_KINDS = {  # what files of other kinds begin with
    b"PK\x03\x04": f"a ZIP archive or an office document{_NOT_A_NOTEBOOK}: if it is an archive, unpack it",
    b"\x1f\x8b": _ARCHIVE, b"7z\xbc\xaf": _ARCHIVE, b"Rar!": _ARCHIVE, b"\xfd7zXZ": _ARCHIVE, b"BZh": _ARCHIVE,
    b"%PDF-": f"a PDF document{_NOT_A_NOTEBOOK}",
    b"{\\rtf": f"a text document (RTF){_NOT_A_NOTEBOOK}", b"\xd0\xcf\x11\xe0": f"an office document{_NOT_A_NOTEBOOK}",
    b"\x89PNG": f"a picture{_NOT_A_NOTEBOOK}", b"\xff\xd8\xff": f"a picture{_NOT_A_NOTEBOOK}",
    b"GIF8": f"a picture{_NOT_A_NOTEBOOK}",
    b"version https://git-lfs": f"what git keeps in place of a large file (Git LFS){_NOT_A_NOTEBOOK}",
    b"[InternetShortcut]": f"a link to a web page{_NOT_A_NOTEBOOK}",
    b"\x7fELF": f"a program{_NOT_A_NOTEBOOK}", b"MZ": f"a program{_NOT_A_NOTEBOOK}"}
_EXPORTED = f"a notebook that was exported as a web page (HTML){_NOT_A_NOTEBOOK}"
_WEB_PAGE = f"a web page (HTML){_NOT_A_NOTEBOOK}: perhaps the login page of the platform was saved instead"


def read(content: bytes) -> tuple[NotebookNode, list[str]]:
    """The notebook (nbformat 4, its outputs left behind) and remarks on what was wrong with the file. Never raises."""
    remarks: list[str] = []
    if len(content) > MAX_BYTES:
        return new_notebook(), [f"the file has {len(content) >> 20} MiB, more than the {MAX_BYTES >> 20} allowed: not read"]
    cells = _cells(content, remarks)
    if len(cells) > MAX_CELLS:
        remarks.append(f"the file has {len(cells):,} cells: those after the first {MAX_CELLS:,} were not read")
    read_cells = [cell for data in cells[:MAX_CELLS] if (cell := _cell(data)) is not None]
    if len(read_cells) < len(cells[:MAX_CELLS]):
        remarks.append(f"{len(cells[:MAX_CELLS]) - len(read_cells)} cells of the file are not cells of a notebook: left out")
    lengths = itertools.accumulate(len(cell.source) for cell in read_cells)
    kept = [cell for cell, length in zip(read_cells, lengths, strict=True) if length <= MAX_SOURCE]
    if len(kept) < len(read_cells):
        remarks.append(f"the cells hold more than {MAX_SOURCE:,} characters: {len(read_cells) - len(kept)} were not read")
    _with_ids_of_their_own(kept)
    return new_notebook(cells=kept), remarks


def _cells(content: bytes, remarks: list[str]) -> list[Any]:
    """The cells as plain data, from a whole notebook of any version, or from the pieces of a broken one."""
    if what := _other_kind(content):
        remarks.append(f"the file is {what}")
        return []
    text = _text(content, remarks)
    try:
        data, problem = json.loads(text), "it has no list of cells"
    except (ValueError, RecursionError, MemoryError) as error:
        data, problem = None, _why_no_json(error, text)
    cells = _listed(data)
    if cells is None:
        cells = _pieces(_CONFLICT.sub("", text))
        if not cells and _is_python(text):
            remarks.append(f"the file is Python code{_NOT_A_NOTEBOOK}: no cell could be read")
        else:
            remarks.append(f"{TORN} ({problem}): "
                           + (f"{len(cells)} cells could be read" if cells else "no cell could be read"))
    elif not cells:
        remarks.append("the file is a notebook without any cell")
    return cells


def _other_kind(content: bytes) -> str:
    """What a file is that is certainly no notebook, in words; "" if it may be one."""
    begins = content[:1024].removeprefix(b"\xef\xbb\xbf").lstrip()
    if not content:
        return "empty (0 bytes)"
    if not content.strip(b"\x00"):
        return f"empty ({len(content):,} bytes, all of them zero): perhaps it was damaged on its way"
    if not content.strip():
        return f"empty ({len(content):,} bytes of blank space)"
    if re.match(rb"(?i)<(!doctype html|html|head|body|!--|\?xml[^>]*>\s*<(!doctype html|html))", begins):
        return _EXPORTED if b"jp-Notebook" in content else _WEB_PAGE
    return next((words for start, words in _KINDS.items() if begins.startswith(start)), "")


def _text(content: bytes, remarks: list[str]) -> str:
    told = content.startswith((b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")) or content[:4].strip(b"\x00")[:1] == b"{"
    encoding = json.detect_encoding(content) if told else "utf-8-sig"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError:
        if not encoding.startswith("utf-8"):
            remarks.append(f"the file is not whole {encoding.upper()}: what could not be read was replaced")
            return content.decode(encoding, errors="replace")
        remarks.append("the file is not UTF-8: read as Latin-1")
        return content.decode("latin-1")


def _why_no_json(error: Exception, text: str) -> str:
    if not isinstance(error, json.JSONDecodeError):
        return plain(str(error) or type(error).__name__)[:100]
    is_cut_off = error.msg.startswith("Unterminated string") or error.pos >= len(text.rstrip())
    return "it breaks off before its end" if is_cut_off else f"its line {error.lineno} is not JSON"


def _listed(data: Any) -> list[Any] | None:
    """The cells of a notebook: nbformat 2 and 3 have them in worksheets. None if there is no list of them."""
    if not isinstance(data, dict):
        return None
    if isinstance(data.get("cells"), list):
        return data["cells"]
    sheets = data.get("worksheets")
    if not isinstance(sheets, list):
        return None
    return [cell for sheet in sheets if isinstance(sheet, dict) for cell in (_listed({"cells": sheet.get("cells")}) or [])]


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


def _is_python(text: str) -> bool:
    """Whether it is a program: more than a word or a number."""
    if len(text) > MAX_SOURCE:
        return False
    try:
        return any(not isinstance(statement, ast.Expr) for statement in ast.parse(text).body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _cell(data: Any) -> NotebookNode | None:
    """Only type, source, id and some metadata are taken, and only as what they must be."""
    if not isinstance(data, dict):
        return None
    source = next((data[key] for key in _SOURCES if key in data), "")
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    if not isinstance(source, str):
        return None
    kind = str(data.get("cell_type"))
    if kind == "heading":
        source = f"{'#' * _level(data.get('level'))} {source}"
    cell = _MAKE.get(kind, new_raw_cell)(whole(source), metadata=_metadata(data.get("metadata")))
    if isinstance(name := data.get("id"), str) and re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        cell.id = name
    return cell


def _level(level: Any) -> int:
    return level if type(level) is int and 1 <= level <= 6 else 1


def _metadata(data: Any) -> NotebookNode:
    """What this course uses of a cell's metadata, where it is what it must be: what nbgrader says of it, and its tags."""
    if not isinstance(data, dict):
        return NotebookNode()
    kept = {}
    if isinstance(data.get("nbgrader"), dict):
        kept["nbgrader"] = data["nbgrader"]
    if isinstance(data.get("tags"), list):
        kept["tags"] = list(dict.fromkeys(tag for tag in data["tags"] if isinstance(tag, str) and tag and "," not in tag))
    try:
        text = json.dumps(kept, ensure_ascii=False)
        return from_dict(json.loads(whole(text))) if len(text) <= MAX_METADATA else NotebookNode()
    except (ValueError, RecursionError):  # nested hundreds of times; a number of thousands of digits
        return NotebookNode()


def _with_ids_of_their_own(cells: list[NotebookNode]) -> None:
    """The first cell with an id keeps it."""
    known: set[str] = set()
    for cell in cells:
        if cell.id in known:
            cell.id = new_raw_cell().id
        known.add(cell.id)
