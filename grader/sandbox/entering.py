"""A process that was forked with torch in its memory enters a sandbox that bubblewrap holds open, and is a program there.

What bubblewrap does before it starts a program, this does before it becomes one: it sees, is and may as much, no more.
"""

import contextlib
import gc
import os
import resource
import runpy
import signal
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import ModuleType

from grader.sandbox.isolation import become_visible, join_namespace, keep_capabilities
from grader.sandbox.syscalls import refuse_unseen_memory

NAMESPACES = ("user", "cgroup", "ipc", "uts", "net", "pid", "mnt")  # in this order: the first gives the right to the others
OURS = ("utils", "grader")  # packages that the sandbox has at another place
IN = b"in"


@dataclass(frozen=True)
class Entry:
    """Where a process goes, and what it is to be there."""

    arguments: tuple[str, ...]  # of Python: -m, module, …; or -c, program
    environment: dict[str, str]
    folder: str
    holder: int = 0  # a process of the sandbox
    groups: tuple[str, ...] = ()  # folders of control groups
    niceness: int = 0
    limits: tuple[tuple[int, int], ...] = ()  # resource.RLIMIT_…, how much
    capabilities: tuple[int, ...] = ()


def enter(stdin: Connection, stdout: Connection, stderr: Connection, entered: Connection, entry: Entry) -> None:
    """Go in, say so (or why not) through `entered`, and end as the program ends that is run there.

    A process stays outside of the namespace of processes that it joins; its child is within.
    """
    try:
        _go_in(entry)
        os.write(entered.fileno(), IN)
    except OSError as error:
        os.write(entered.fileno(), str(error).encode())
        os._exit(1)
    child = os.fork()
    if child == 0:
        for number, pipe in enumerate((stdin, stdout, stderr)):
            os.dup2(pipe.fileno(), number)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        os._exit(_become(entry))
    os.closerange(0, os.sysconf("SC_OPEN_MAX"))
    keep_capabilities()
    while os.WIFSTOPPED(status := os.waitpid(child, 0)[1]):
        pass  # who lets itself be traced is not at its end
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def _go_in(entry: Entry) -> None:
    for folder in entry.groups:
        with open(f"{folder}/cgroup.procs", "w") as file:
            file.write(str(os.getpid()))
    os.nice(entry.niceness)
    places = [f"/proc/{entry.holder}/ns/{kind}" for kind in NAMESPACES]
    for namespace in [os.open(place, os.O_RDONLY) for place in places if os.path.exists(place)]:  # not each kernel has all
        join_namespace(namespace)


def _become(entry: Entry) -> int:
    """Run the program; its exit code. Nothing is taken apart at its end, which would take a third of a second."""
    try:
        os.setsid()
        os.chdir(entry.folder)
        os.environ.clear()
        os.environ.update(entry.environment)
        for kind, most in entry.limits:
            allowed = resource.getrlimit(kind)[1]
            most = most if allowed == resource.RLIM_INFINITY else min(most, allowed)
            resource.setrlimit(kind, (most, most))
        keep_capabilities(entry.capabilities)
        become_visible()
        if not entry.capabilities:  # else it is to make namespaces, and what it starts there is watched apart
            refuse_unseen_memory()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
            del sys.modules[name]
        sys.path[0] = entry.environment["PYTHONPATH"]
        gc.enable()
        _run(entry.arguments)
        return 0
    except SystemExit as error:
        return _code_of(error)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # nobody reads any more, or it was closed
                stream.flush()


def _run(arguments: Sequence[str]) -> None:
    """As `python -m module …` or `python -c program` would."""
    kind, what, *_ = arguments
    sys.argv[:] = arguments[1:] if kind == "-m" else ["-c", *arguments[2:]]
    if kind == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
        return
    main = sys.modules["__main__"] = ModuleType("__main__")
    exec(compile(what, "<string>", "exec"), vars(main))


def _code_of(error: SystemExit) -> int:
    if error.code is None or isinstance(error.code, int):
        return error.code or 0
    print(error.code, file=sys.stderr)
    return 1
