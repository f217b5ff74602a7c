"""The exercises' source as students get it: cases and results come from data, and what only made them is left out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from itertools import accumulate

LOADERS = {"make_cases": "public_cases(__file__)", "oracle": "public_results(__file__)"}
LOADERS_MODULE = "grader.bundle.public_cases"
Name = tuple[str, str]  # a module, and what it defines at its top level


def public_sources(sources: Mapping[str, str]) -> dict[str, str]:
    """From module name -> source, for all modules of grader.exercises, to the same without generators and oracles.

    A module of which nothing is needed any more is left out.
    """
    loading = {module: with_loaders(source) for module, source in sources.items()}
    trees = {module: ast.parse(source) for module, source in loading.items()}
    needed = _needed(trees)
    kept = {module: {name for owner, name in needed if owner == module} for module in trees}
    return {module: _only(source, trees[module], kept[module]) for module, source in loading.items() if kept[module]}


def with_loaders(source: str) -> str:
    """The source of an exercise with its make_cases and its oracle read from data; other source as it is."""
    tree = ast.parse(source)
    exercise = next((s.value for s in tree.body if _defines(s) == {"EXERCISE"}), None)
    if exercise is None:
        return source
    values = {keyword.arg: keyword.value for keyword in exercise.keywords}
    last = [s for s in tree.body if isinstance(s, ast.ImportFrom) and "grader." <= s.module < LOADERS_MODULE][-1]
    names = ", ".join(sorted(call.split("(")[0] for call in LOADERS.values()))
    changes = {values[keyword]: call for keyword, call in LOADERS.items()}
    changes[last] = f"{ast.get_source_segment(source, last)}\nfrom {LOADERS_MODULE} import {names}"
    return _replaced(source, changes)


def _replaced(source: str, changes: Mapping[ast.AST, str]) -> str:
    """The source with other text where these nodes stand. ast counts columns in bytes."""
    raw = source.encode()
    line_starts = list(accumulate((len(line) for line in raw.splitlines(keepends=True)), initial=0))
    for node, text in sorted(changes.items(), key=lambda change: (change[0].lineno, change[0].col_offset), reverse=True):
        start, end = line_starts[node.lineno - 1] + node.col_offset, line_starts[node.end_lineno - 1] + node.end_col_offset
        raw = raw[:start] + text.encode() + raw[end:]
    return raw.decode()


# ── what is needed ──


def _defines(statement: ast.stmt) -> set[str]:
    """The names that a statement at the top level defines; empty for what has to stay in any case."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return {statement.name}
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        return set() if future else {_bound(alias) for alias in statement.names}
    if isinstance(statement, (ast.Assign, ast.AnnAssign)):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
    return set()


def _bound(alias: ast.alias) -> str:
    return alias.asname or alias.name.split(".")[0]


def _needed(trees: Mapping[str, ast.Module]) -> set[Name]:
    """All that the exercises lead to, and all that a package's __init__ defines."""
    todo = {(module, name) for module, tree in trees.items() for statement in tree.body for name in _defines(statement)
            if name == "EXERCISE" or any(other.startswith(module + ".") for other in trees)}
    found: set[Name] = set()
    while todo:
        found |= todo
        todo = {used for one in todo for used in _uses(trees, *one)} - found
    return found


def _uses(trees: Mapping[str, ast.Module], module: str, name: str) -> Iterator[Name]:
    """What the definition of one name uses, here or in the module that it is imported from."""
    for statement in trees[module].body if module in trees else ():
        if name not in _defines(statement):
            continue
        if isinstance(statement, ast.ImportFrom):
            yield from ((statement.module, alias.name) for alias in statement.names if _bound(alias) == name)
        else:
            yield from ((module, node.id) for node in ast.walk(statement) if isinstance(node, ast.Name))


# ── leaving out the rest ──


def _only(source: str, tree: ast.Module, names: set[str]) -> str:
    """The source without the definitions of other names."""
    lines: list[str | None] = source.splitlines()
    for statement in tree.body:
        defined = _defines(statement)
        if not defined or defined <= names:
            continue
        first = min([statement.lineno, *(one.lineno for one in getattr(statement, "decorator_list", ()))]) - 1
        if defined & names and not isinstance(statement, (ast.Import, ast.ImportFrom)):
            continue
        while first and not defined & names and (lines[first - 1] or "").startswith("#"):
            first -= 1  # the comment above it goes with it
        lines[first:statement.end_lineno] = [None] * (statement.end_lineno - first)
        if defined & names:
            lines[first] = _fewer(statement, names)
    text = "\n".join(line for line in lines if line is not None)
    return re.sub(r"\n{4,}", "\n\n\n", text) + "\n"


def _fewer(statement: ast.Import | ast.ImportFrom, names: set[str]) -> str:
    statement.names = [alias for alias in statement.names if _bound(alias) in names]
    return ast.unparse(statement)
