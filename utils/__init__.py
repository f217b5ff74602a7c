"""What a cell of the course uses. `%load_ext utils` adds the %%ranks magic."""

import sys
from importlib import import_module
from importlib.util import LazyLoader, find_spec, module_from_spec

_WHERE = {
    "utils.deadlocks.errors": ("DeadlineExceeded", "Deadlock", "Mismatch", "RankFailed", "RanksError"),
    "utils.notebook.predictions": ("Predictions",),
    "utils.ranks.run": ("Run", "run_ranks"),
    "utils.simulation.simulate": ("simulate_ranks",),
    "utils.trace.spans": ("mark", "span"),
}
_MODULES = {name: module for module, names in _WHERE.items() for name in names}
__all__ = sorted(_MODULES)


def __getattr__(name: str):
    """Loaded when first asked for: whoever needs one small module of utils shall not wait for torch."""
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    if name == "widgets":
        return sys.modules.get("utils.figures.widgets") or _loaded_when_used("utils.figures.widgets")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__, "widgets"]


def _loaded_when_used(name: str):
    """The module of this name, as yet empty."""
    spec = find_spec(name)
    spec.loader = LazyLoader(spec.loader)
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load_ipython_extension(shell) -> None:
    """Called by %load_ext utils: add the magic, and start the rank server."""
    from utils.notebook.magic import RanksMagic
    from utils.ranks.server import warm_up

    shell.register_magics(RanksMagic)
    warm_up()
