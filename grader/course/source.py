"""What a cell's source says: whether it is Python, what it defines, what it uses. Nothing is run."""

import ast
import functools
import symtable
from collections.abc import Iterable, Iterator

from IPython.core.inputtransformer2 import TransformerManager

MAX_LETTERS = 1 << 16  # of a cell; a longer one is not parsed
RUN_PYTHON = ("capture", "prun", "time", "timeit")  # magics whose cell is Python
_DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
UNPARSABLE = (SyntaxError, ValueError, RecursionError, MemoryError, RuntimeError)


@functools.lru_cache(maxsize=1024)
def as_run(source: str) -> str:
    """The Python that IPython makes of a cell: calls in place of magics, and what a magic runs that runs Python."""
    magic, _, body = source.partition("\n")
    if magic.startswith("%%") and magic[2:].split(" ")[0] in RUN_PYTHON:
        return "\n" + as_run(body)
    return TransformerManager().transform_cell(source)


@functools.lru_cache(maxsize=4096)
def parsed(source: str) -> ast.Module | None:
    """None for what is not Python, or too long to be looked at."""
    if len(source) > MAX_LETTERS:
        return None
    try:
        return ast.parse(as_run(source))
    except UNPARSABLE:
        return None


def is_whole(source: str) -> bool:
    """Whether a cell is Python by itself. IPython would take the indented rest of a function for a program of its own."""
    first = next((line for line in source.split("\n") if line.strip()), "")
    return parsed(source) is not None and not first.startswith((" ", "\t"))


def why_not_parsed(source: str) -> str:
    """": invalid syntax, in its line 3"; "" where that is not known."""
    if len(source) > MAX_LETTERS:
        return f": it has more than {MAX_LETTERS:,} letters"
    try:
        ast.parse(as_run(source))
    except SyntaxError as error:
        return f": {error.msg}, in its line {error.lineno}"
    except UNPARSABLE as error:
        return f": {type(error).__name__}"
    return ""


def defined_in(source: str) -> frozenset[str]:
    """Names that a cell binds at its top level; none if it is not Python."""
    tree = parsed(source)
    return frozenset() if tree is None else frozenset(name for node in tree.body for name in _bound_by(node))


def used_in(source: str) -> frozenset[str]:
    """Names that a cell takes from outside its functions."""
    if parsed(source) is None:
        return frozenset()
    try:
        return frozenset(_globals_of(symtable.symtable(as_run(source), "cell", "exec")))
    except UNPARSABLE:
        return frozenset()


def _globals_of(table: symtable.SymbolTable) -> Iterator[str]:
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (symbol.is_global() or table.get_type() == "module"):
            yield symbol.get_name()
    for inner in table.get_children():
        yield from _globals_of(inner)


def definitions_of(source: str) -> str:
    """Only the imports, functions, classes and constants of a cell: what can be run without its experiments."""
    tree = parsed(source)
    if tree is None:
        return ""
    lines = as_run(source).split("\n")
    return "\n\n".join("\n".join(lines[_first_line(node) - 1:node.end_lineno])
                       for node in tree.body if _only_defines(node))


def has_only_definitions(source: str) -> bool:
    """Whether a cell has nothing else."""
    tree = parsed(source)
    return tree is not None and all(map(_only_defines, tree.body))


def _bound_by(node: ast.stmt) -> Iterable[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.Assign():
            return [name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.AugAssign(target=ast.Name(id=name)):
            return [name]
        case ast.Import() | ast.ImportFrom():
            return [alias.asname or alias.name.split(".")[0] for alias in node.names]
        case ast.If() | ast.Try() | ast.With() | ast.For() | ast.While():
            return [name for inner in _blocks_of(node) for name in _bound_by(inner)]
    return []


def _only_defines(node: ast.stmt) -> bool:
    if isinstance(node, (ast.If, ast.Try)):
        return all(map(_only_defines, _blocks_of(node)))
    calls = any(isinstance(inner, ast.Call) for inner in ast.walk(node))
    return isinstance(node, _DEFINITIONS) or (isinstance(node, (ast.Assign, ast.AnnAssign)) and not calls)


def _blocks_of(node: ast.stmt) -> list[ast.stmt]:
    handlers = [inner for handler in getattr(node, "handlers", []) for inner in handler.body]
    return [*node.body, *handlers, *getattr(node, "orelse", []), *getattr(node, "finalbody", [])]


def _first_line(node: ast.stmt) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
