"""Mutants made by rules from every reference: which of them do the public checks let pass? (`make mutants`)

A site is one place in a reference where one rule applies. A mutant that nothing can tell from the reference is noted, with
its reason, in EQUIVALENT of grader/exercises/<unit>/<exercise>/mistakes.py.
"""

import argparse
import ast
import importlib
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from grader.exercises import UNITS, order_of
from grader.exercises.references import reference_cell
from tests.many import passing

SWAPPED = {"+": "-", "-": "+", "*": "/", "/": "*", "//": "%", "%": "//", "<": "<=", "<=": "<", ">": ">=", ">=": ">",
           "==": "!=", "!=": "==", "and": "or", "or": "and"}
HARMLESS_CALLS = ("clone", "detach", "contiguous", "wait", "float", "double")  # x.clone() → x
OF_THE_GROUP = ("get_rank", "get_world_size")
SYMMETRIC = ("min", "max", "mse_loss", "logaddexp")
TWINS = {"sum": "mean", "mean": "sum", "zeros_like": "empty_like", "group_src": "src", "group_dst": "dst",
         "isend": "send", "irecv": "recv", "floor": "ceil", "ceil": "floor", "min": "max", "max": "min",
         "SUM": "MAX", "MAX": "SUM", "float32": "bfloat16", "bfloat16": "float32", "float64": "float32",
         "no_grad": "enable_grad"}


@dataclass(frozen=True)
class Site:
    """One change of a reference: the text from start to end becomes `new`."""

    rule: str
    start: int
    end: int
    new: str
    line: str  # on which it stands

    def name(self, source: str) -> str:
        """The same after changes elsewhere in the reference."""
        return f"{self.line.partition('  #')[0].strip()} | {source[self.start:self.end]} → {self.new or 'nothing'}"


def sites(source: str) -> list[Site]:
    """Every place where a rule applies, in the order of the source; docstrings and annotations are left alone."""
    lines = source.splitlines(keepends=True)
    begins = [0]
    for line in lines:
        begins.append(begins[-1] + len(line))

    def offset(line: int, column: int) -> int:
        return begins[line - 1] + len(lines[line - 1].encode()[:column].decode())

    def place(part: ast.AST) -> slice:
        return slice(offset(part.lineno, part.col_offset), offset(part.end_lineno, part.end_col_offset))

    made = []
    for node in _walk(ast.parse(source)):
        for rule, part, new in _rules(node, lambda part: source[place(part)]):
            made.append(Site(rule, place(part).start, place(part).stop, new, lines[part.lineno - 1]))
    made.sort(key=lambda site: (site.start, site.end, site.rule))
    return list({(site.start, site.end, site.new): site for site in made}.values())


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "bases"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_text(child):
                yield from _walk(child)


def _is_text(node: ast.AST) -> bool:
    """A docstring, or the words of an error."""
    is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_docstring or isinstance(node, (ast.Raise, ast.JoinedStr))


def _rules(node: ast.AST, text: Callable[[ast.AST], str]) -> Iterator[tuple[str, ast.AST, str]]:
    """(rule, the node that is replaced, its new text); text(node): as it is in the source."""
    if isinstance(node, (ast.BinOp, ast.Compare, ast.BoolOp)):
        yield from (("operator", node, new) for new in _with_an_operator_swapped(node, text))
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.Mod)):
            yield "operand dropped", node, text(node.left)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        yield "sign dropped", node, text(node.operand)
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield "one more", node, str(node.value + 1)
        yield "one less", node, str(node.value - 1) if node.value else "(-1)"
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield "opposite", node, str(not node.value)
    elif isinstance(node, ast.Attribute) and node.attr in TWINS:
        yield "twin", node, f"{text(node.value)}.{TWINS[node.attr]}"
    elif isinstance(node, ast.keyword) and node.arg in TWINS:
        yield "twin", node, f"{TWINS[node.arg]}={text(node.value)}"
    elif isinstance(node, (ast.Expr, ast.AugAssign, ast.Delete)) or _keeps(node):
        yield "statement dropped", node, "pass"
        if isinstance(node, ast.AugAssign):
            yield "overwritten", node, f"{text(node.target)} = {text(node.value)}"
    elif isinstance(node, (ast.If, ast.IfExp)):
        yield "condition turned", node.test, f"not ({text(node.test)})"
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and isinstance(node.slice, ast.Name):
        yield "index shifted", node.slice, f"{text(node.slice)} - 1"
    if isinstance(node, ast.Call):
        yield from _rules_of_calls(node, text)


def _with_an_operator_swapped(node: ast.AST, text: Callable[[ast.AST], str]) -> Iterator[str]:
    """Each operator in turn; brackets stay where they are."""
    operands = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
    whole, after = text(node), 0
    for left, right in pairwise(operands):
        end = whole.index(text(left), after) + len(text(left))
        after = whole.index(text(right), end)
        between = whole[end:after]
        operator = between.strip(" ()\n")
        if operator in SWAPPED:
            yield whole[:end] + between.replace(operator, SWAPPED[operator]) + whole[after:]


def _keeps(node: ast.AST) -> bool:
    """Whether it puts something into an object or a list, so that no name is missing without it."""
    return isinstance(node, ast.Assign) and isinstance(node.targets[0], (ast.Attribute, ast.Subscript))


def _rules_of_calls(node: ast.Call, text: Callable[[ast.AST], str]) -> Iterator[tuple[str, ast.AST, str]]:
    def call(arguments: list[ast.AST]) -> str:
        return f"{text(node.func)}({', '.join(map(text, arguments))})"

    arguments = [*node.args, *node.keywords]
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if isinstance(node.func, ast.Attribute) and called in HARMLESS_CALLS and not arguments:
        yield f"{called} dropped", node, text(node.func.value)
    if called in OF_THE_GROUP and node.args:
        yield "whole world", node, f"{text(node.func)}()"
    if called == "range" and len(node.args) == 1:
        yield "one round less", node, f"range({text(node.args[0])} - 1)"
    for keyword in node.keywords:
        if keyword.arg in ("group", "async_op", "dtype", "op", "dim"):
            yield f"{keyword.arg} dropped", node, call([part for part in arguments if part is not keyword])
    if len(node.args) == 2 and called not in SYMMETRIC and not any(isinstance(part, ast.Starred) for part in node.args):
        yield "arguments swapped", node, call([node.args[1], node.args[0], *node.keywords])


def mutants(unit: str, exercise: str) -> list[tuple[str, str]]:
    """(name, source of the exercise's cell) of every machine-made mutant; those that do not compile are no mutants."""
    source = reference_cell(unit, exercise)
    made = {}
    for site in sites(source):
        changed = source[:site.start] + site.new + source[site.end:]
        try:
            compile(changed, exercise, "exec")
        except SyntaxError:
            continue
        if changed in made.values():
            continue
        name = site.name(source)
        while name in made:  # the same change twice in one line
            name += ", again"
        made[name] = changed
    return list(made.items())


def equivalent(unit: str, exercise: str) -> dict[str, str]:
    """name -> why nothing can tell it from the reference"""
    return getattr(importlib.import_module(f"grader.exercises.{unit}.{exercise}.mistakes"), "EQUIVALENT", {})


def sample(unit: str, exercise: str, of: int) -> list[tuple[str, str]]:
    """About one mutant in `of`, always the same ones."""
    return [(name, source) for name, source in mutants(unit, exercise)
            if zlib.crc32(f"{exercise}: {name}".encode()) % of == 0 and name not in equivalent(unit, exercise)]


# ── the command ──


def main() -> None:
    """Print for one exercise after the other how many there are and every survivor that is not noted; 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("chosen", nargs="*", help="units or exercises (all of them if none is named)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--one-in", type=int, default=1, help="only about one mutant in so many")
    options = parser.parse_args()
    chosen = [(unit, exercise) for unit in UNITS for exercise in order_of(unit)
              if not options.chosen or {unit, exercise} & set(options.chosen)]
    made = {pair: sample(*pair, options.one_in) for pair in chosen}
    passed = passing(((*pair, source) for pair in chosen for _, source in made[pair]), options.workers)
    total = Counter()
    for pair in chosen:
        left = [name for name, _ in made[pair] if next(passed)]
        count = Counter(made=len(made[pair]), survived=len(left), noted=len(equivalent(*pair)))
        total.update(count)
        print(f"{pair[1]:34} {_in_words(count)}", *left, sep="\n    SURVIVED ", flush=True)
    print(_in_words(total))
    sys.exit(total["survived"] > 0)


def _in_words(count: Counter) -> str:
    return f"made {count['made']:4}, survived {count['survived']:3}, noted {count['noted']:3}"


if __name__ == "__main__":
    main()
