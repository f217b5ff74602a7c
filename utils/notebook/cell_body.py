"""A cell's code as a function that ranks can run. Imported in every rank, so it must not import IPython."""

import ast
import builtins
from typing import Any

import torch
import torch.distributed as dist

_READY = {"torch": torch, "dist": dist}


class CellBody:
    """A cell's code as a function of (rank, world_size), with the notebook's variables that it uses."""

    def __init__(self, source: str, filename: str, variables: dict[str, Any]):
        tree = ast.parse(source, filename)  # a SyntaxError is shown as for any cell
        self.source, self.filename = source, filename
        self.variables = _used(compile(tree, filename, "exec"), variables)

    def __call__(self, rank: int, world_size: int) -> Any:
        tree = ast.parse(self.source, self.filename)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        namespace = {"__name__": "__main__", **_READY, **self.variables, "rank": rank, "world_size": world_size}
        exec(compile(tree, self.filename, "exec"), namespace)
        return eval(compile(ast.Expression(last.value), self.filename, "eval"), namespace) if last else None


def _used(code, variables: dict[str, Any]) -> dict[str, Any]:
    """The notebook's variables whose names appear in the code, also in functions that it defines."""
    names = set(code.co_names)
    stack = list(code.co_consts)
    while stack:
        constant = stack.pop()
        if hasattr(constant, "co_names"):
            names |= set(constant.co_names)
            stack += constant.co_consts
    return {name: variables[name] for name in names if name in variables and not hasattr(builtins, name)}
