"""Inside a rank: the library's own version of what an exercise has written raises, however it is reached.

Functions of a module that is there already keep their names and lose their code; files that are not loaded stay so. An audit
hook cannot be taken out again.
"""

import functools
import importlib.util
import os
import sys
import types
from collections.abc import Iterator, Sequence

from utils.ranks.server import COMPILER

_PULLED_IN = ("torch.distributed.fsdp", "torch.distributed.tensor")
_FUNCTION = "def refused(*arguments, **named):\n    raise RuntimeError({!r})"
# Name → (its files, each of its functions with what becomes of its code; of a class nothing), and among how many modules
_found: dict[str, tuple[list[str], list[tuple[types.FunctionType, types.CodeType]]]] = {}
_found_among: dict[str, int] = {}
_refused: dict[str, str] = {}  # the beginning of a path of files -> the module or package that it belongs to
_KNOWN_AS = {"torch.distributed._mesh_layout": "torch.distributed.device_mesh",  # private module: what it is a part of
             "torch.distributed._pycute": "torch.distributed.device_mesh"}


def why(name: str) -> str:
    """What is said to who uses this module, package or class."""
    return f"{_KNOWN_AS.get(name, name)} is what this exercise has you write: do without it"


def forbid(packages: Sequence[str]) -> None:
    """From now on nothing of these modules, packages and classes can be used, for the rest of this process's life."""
    packages = [name for name in packages if name not in _refused.values()]
    find(packages)
    if packages and not _refused:
        sys.addaudithook(_refuse)
    for name in packages:
        files, functions = _found[name]
        for function, without in functions:
            function.__code__ = without
        if not files:
            _forbid_class(name)
        _refused.update(dict.fromkeys(files, name))


def find(packages: Sequence[str]) -> None:
    """Find what is to be taken of each. It takes a while; what a process has found, those know that it forks."""
    if any(name.startswith(_PULLED_IN) for name in packages):
        importlib.import_module(COMPILER)  # it imports much of torch.distributed for itself, so before anything is forbidden
    for name in packages:
        if name not in _found or _found_among[name] != len(sys.modules):  # else no module has come
            _found[name] = (_files(name), _without_code(name)) if _is_module(name) else ([], [])
            _found_among[name] = len(sys.modules)


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # what it would lie in is a module, no package
        return False


def _without_code(name: str) -> list[tuple[types.FunctionType, types.CodeType]]:
    """Each function of a module or package, and what is put in the place of its code."""
    made: dict[str, types.FunctionType] = {}
    exec(_FUNCTION.format(why(name)), made)
    refused = functools.cache(lambda names: made["refused"].__code__.replace(co_freevars=names))
    functions = [function for module in _loaded(name) for function in _functions_of(module)]
    return [(function, refused(function.__code__.co_freevars)) for function in functions]


def _forbid_class(name: str) -> None:
    """Of a module that is there; one of C++ has no code to be taken."""
    module, _, own = name.rpartition(".")

    def refused(*arguments, **named):
        raise RuntimeError(why(name))

    getattr(importlib.import_module(module), own).__init__ = refused


def _files(name: str) -> list[str]:
    origin = os.path.realpath(importlib.util.find_spec(name).origin)
    folder, file = os.path.split(origin)
    return [folder + os.sep] if file == "__init__.py" else [origin, importlib.util.cache_from_source(origin)]


def _loaded(name: str) -> list[types.ModuleType]:
    return [module for key, module in list(sys.modules.items()) if key == name or key.startswith(f"{name}.")]


def _functions_of(module: types.ModuleType) -> Iterator[types.FunctionType]:
    """Those that the module defines, and the methods of its classes, but for errors."""
    for value in list(vars(module).values()):
        members = vars(value).values() if isinstance(value, type) and not issubclass(value, Exception) else [value]
        for function in (getattr(member, "__func__", member) for member in members):  # of static and class methods
            if isinstance(function, types.FunctionType) and function.__module__ == module.__name__:
                yield function


def _refuse(event: str, arguments: tuple) -> None:
    """Code of these files that would run, or comes by value; the files; and what gives them another name."""
    if event not in _FILE_OF:
        return
    path = _FILE_OF[event](arguments)
    if not isinstance(path, str | bytes | os.PathLike):  # a file that is open already
        return
    path = os.fsdecode(path)
    whole = os.path.realpath(path)
    for start, name in _refused.items():
        if whole.startswith(start) or (event == "open" and (_ends_in(path, start) or _lies_in(start, whole))):
            raise (PermissionError if event == "open" else ImportError)(why(name))


def _ends_in(path: str, start: str) -> bool:
    """Whether a path that is relative, perhaps to a folder that is open, could be one of these files."""
    if os.path.isabs(path):
        return False
    rest = f"{os.sep}{os.path.normpath(path)}{os.sep}".replace(os.sep + os.pardir, "")
    folders = start.strip(os.sep).split(os.sep)
    return any(rest.startswith(os.sep.join(["", *folders[number:], ""])) for number in range(len(folders)))


def _lies_in(start: str, path: str) -> bool:
    """Whether these files lie in this folder: who has it open can name them in a way that is not seen."""
    return start.startswith(path.rstrip(os.sep) + os.sep) and os.path.isdir(path)


_FILE_OF = {  # event of Python's audit hooks -> which of its arguments, or what of them, is a file
    "exec": lambda arguments: arguments[0].co_filename, "code.__new__": lambda arguments: arguments[1],
    "open": lambda arguments: arguments[0], "os.symlink": lambda arguments: arguments[0],
    "os.link": lambda arguments: arguments[0]}
