"""What students are told outside notebooks, found in the sources: texts as they stand, f-strings with their fields."""

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path

from jinja2 import Environment, nodes

from grader.exercises import UNITS
from utils.languages.catalogue import FIELD

ROOT = Path(__file__).resolve().parents[2]
GENERAL = "general"  # the catalogue of what belongs to no unit
SOURCES = {  # catalogue -> patterns of the files that its sentences stand in
    GENERAL: (
        "utils/deadlocks/[!w]*.py", "utils/trace/source.py", "utils/trace/recorder.py", "utils/trace/traced_group.py",
        "utils/ranks/error_facts.py", "utils/ranks/fresh_process.py", "utils/ranks/payload.py", "utils/ranks/run.py",
        "utils/checking.py",
        "grader/judging/[cdefjnv]*.py", "grader/judging/*.html", "grader/evidence/e*.py",
        "grader/exercises/shared/cases.py", "grader/exercises/technique/rank_by_rank.py", "grader/exercises/hints.toml",
        "grader/calling/checked.py", "grader/checks.py", "grader/not_written.py", "grader/standing.*",
        "grader/course/alarms.py", "grader/course/autograde.py", "grader/course/cell.py", "grader/course/feedback.py",
        "grader/course/handed_in.py", "grader/course/late.py", "grader/course/mark.py", "grader/course/running.py",
        "grader/course/splice.py", "grader/course/student_page.html",
        "grader/report/page.*", "grader/report/records.py", "grader/report/terminal.py",
    ),
    "simulation": ("utils/simulation/*.py",),
    "technique": ("grader/exercises/technique/[!r]*.py",),  # what exercises of several units demand
    **{unit: (f"grader/exercises/{unit}/*/exercise.py", f"grader/exercises/{unit}/*/technique.py",
              f"grader/exercises/{unit}/*/hints.toml") for unit in UNITS},
}
NOT_SHOWN = {"Bool", "Symptom", "compile", "deadlocked", "mark", "raised", "span", "spans_called", "startswith"}  # calls
ALONE = {  # single words that are shown
    "Technique:", "all", "buffers", "connections", "deadlocked", "groups", "nothing", "one rank", "operation", "points",
    "raised", "received", "refusals", "root", "sent", "size", "technique", "timed out", "unit", "values",
}
JOINTS = (": ", ", then ", ", ", " and ", ".")  # between the parts of a list, and at the end of a sentence
COUNTED = "counted"  # counted(2, "rank") is "2 ranks"
_CODE = re.compile(r"^<|[\\|]")  # HTML, patterns
_LETTERS = re.compile(r"[^\W\d_]{2}")


def sentences(catalogue: str) -> dict[str, list[str]]:
    """Each sentence of a catalogue, in the order of the files, with where it stands: files, for a hint also its id.

    What the general catalogue has is in no other.
    """
    found: dict[str, list[str]] = {joint: [] for joint in JOINTS} if catalogue == GENERAL else {}
    ids, known = set(_ids()) - ALONE, () if catalogue == GENERAL else sentences(GENERAL)
    for pattern in SOURCES[catalogue]:
        for file in sorted(ROOT.glob(pattern)):
            place = file.relative_to(ROOT).as_posix()
            for text, about in sentences_in(file):
                if _is_shown(text) and text not in ids if file.suffix == ".py" else _has_words(text):
                    found.setdefault(text, []).append(f"{place} ({about})" if about else place)
    return {text: places for text, places in found.items() if text not in known}


def sentences_in(file: Path) -> Iterator[tuple[str, str]]:
    """(text, the id of the hint that it is, if it is one) of a module, a template or a list of hints."""
    content = file.read_text(encoding="utf-8")
    if file.suffix == ".toml":
        yield from ((text, id) for id, text in tomllib.loads(content).items())
    else:
        texts = _of_page(content) if file.suffix == ".html" else _of_module(ast.parse(content))
        yield from ((line.strip(), "") for text in texts for line in text.split("\n"))


def _ids() -> Iterator[str]:
    """Of hints: names by which code knows them."""
    for file in (ROOT / "grader/exercises").rglob("hints.toml"):
        yield from tomllib.loads(file.read_text(encoding="utf-8"))


def _is_shown(text: str) -> bool:
    """Whether it has words, several of them or one of those that are shown alone."""
    if text in ALONE or text in JOINTS:
        return True
    return " " in text and not _CODE.search(text) and _has_words(text)


def _has_words(text: str) -> bool:
    return text in JOINTS or bool(_LETTERS.search(FIELD.sub("", text)))


# ── modules ──

Part = str | ast.expr  # of a text: words, or what is filled in


def _of_module(node: ast.AST) -> Iterator[str]:
    """The texts in a piece of a program, but for docstrings and arguments of calls that show nothing."""
    for child in _children(node):
        texts = _texts(child) if isinstance(child, ast.expr) else None
        if texts is None:
            yield from _of_module(child)
            continue
        for parts in texts:
            yield _with_fields(parts)
            for part in parts:
                if isinstance(part, ast.expr):
                    yield from _of_module(part)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Call) and _name(node.func) in NOT_SHOWN:
        return
    for child in ast.iter_child_nodes(node):
        is_docstring = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
        is_annotation = child in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if not (is_docstring or is_annotation):
            yield child.value if isinstance(child, ast.Subscript) else child


def _texts(node: ast.expr) -> list[list[Part]] | None:
    """The texts that an expression can be, each as its parts; None for what is no text. An `if` within makes two of one."""
    if isinstance(node, ast.Constant):
        return [[node.value]] if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return _joined([_texts(value) or [[value]] for value in node.values])
    if isinstance(node, ast.FormattedValue):
        return _texts(node.value) if _is_words(node.value) else [[node.value]]
    if isinstance(node, ast.IfExp):
        branches = [_texts(branch) for branch in (node.body, node.orelse)]
        if branches == [None, None]:
            return None
        return [text for branch, texts in zip((node.body, node.orelse), branches, strict=True)
                for text in texts or [[branch]]]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        texts = _texts(node.left)
        return texts and [*texts, [""]]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        sides = [_texts(node.left), _texts(node.right)]
        if sides == [None, None] or any(isinstance(side, (ast.List, ast.Tuple)) for side in (node.left, node.right)):
            return None
        return _joined([texts or [[side]] for side, texts in zip((node.left, node.right), sides, strict=True)])
    if isinstance(node, ast.Call) and _name(node.func) == COUNTED and isinstance(node.args[1], ast.Constant):
        return [[node.args[0], f" {node.args[1].value}{s}"] for s in ("", "s")]
    return None


def _is_words(node: ast.expr) -> bool:
    """Whether what is filled in is one of several texts that stand here."""
    return isinstance(node, (ast.IfExp, ast.JoinedStr)) or (
        isinstance(node, ast.BinOp) and _texts(node) is not None)


def _joined(parts: Sequence[list[list[Part]]]) -> list[list[Part]]:
    return [[piece for part in choice for piece in part] for choice in product(*parts)]


def _with_fields(parts: Iterable[Part]) -> str:
    """Words, and what is filled in as {name}; two that are filled in side by side are one."""
    text, named = "", {}
    for part in parts:
        if isinstance(part, str):
            text += part
        elif not text.endswith("}"):
            source = ast.unparse(part)
            text += f"{{{named.setdefault(source, _new_name(_name(part), named.values()))}}}"
    while "{}" in text:  # what str.format fills in
        text = text.replace("{}", f"{{{named.setdefault(text, _new_name('value', named.values()))}}}", 1)
    return text


def _name(node: ast.expr) -> str:
    """What an expression is about: its last name."""
    if isinstance(node, ast.Call):
        is_join = isinstance(node.func, ast.Attribute) and node.func.attr in ("join", "lstrip", "replace", "strip")
        inner = node.args[0] if is_join and node.args else node.func
        return _name(inner)
    if isinstance(node, ast.Attribute):
        return node.attr.strip("_")
    if isinstance(node, ast.Name):
        return node.id.strip("_")
    if isinstance(node, (ast.Subscript, ast.Starred, ast.FormattedValue)):
        return _name(node.value)
    if isinstance(node, ast.BinOp):
        return _name(node.left)
    return "value"


def _new_name(name: str, taken: Iterable[str]) -> str:
    names = [name, *(f"{name}_{number}" for number in range(2, 20))]
    return next(one for one in names if one not in taken)


# ── templates of pages ──


def _of_page(template: str) -> Iterator[str]:
    """The texts that a page puts through its filter `translated`."""
    for found in Environment().parse(template).find_all(nodes.Filter):
        if found.name == "translated":
            parts = found.node.nodes if isinstance(found.node, nodes.Concat) else [found.node]
            yield "".join(part.value if isinstance(part, nodes.Const) else f"{{{_name_in_page(part)}}}" for part in parts)


def _name_in_page(node: nodes.Expr) -> str:
    return node.attr if isinstance(node, nodes.Getattr) else getattr(node, "name", "value")
