"""Run a program shut off from everything but what it is given: bubblewrap around it, and limits on what it may use up."""

import contextlib
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from grader.sandbox.cgroup import ControlGroup
from grader.sandbox.entering import Entry
from grader.sandbox.hiding import without
from grader.sandbox.programs import ROOT, Forked, NotEntered, Started, source
from grader.sandbox.watch import USUAL, Finished, Limits, Watch

# All of the project that enters, but for how exercises are called.
CODE = ("utils", "grader/__init__.py", "grader/evidence", "grader/calling", "grader/sandbox")
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/alternatives", "/etc/fonts", "/etc/ld.so.cache",
          "/etc/localtime")
EXCHANGE = "/usr/local/share/nbgrader"  # nbgrader's own choice for what students hand in
COURSE, HOME = "/course", "/tmp/home"  # in a sandbox
CAPABILITIES = {"CAP_SETPCAP": 8, "CAP_SYS_ADMIN": 21,  # to make namespaces and to give all this up
                "CAP_NET_RAW": 13, "CAP_SYS_PTRACE": 19}  # for the witness
OPEN_FILES, WAITING_SIGNALS = 1024, 256  # of a process: what the kernel keeps for each is counted nowhere else
NICENESS = 5  # whoever works at this machine comes first
_REFUSED = ("bubblewrap may not make a sandbox here: {}. In a container, allow user namespaces (Docker: --security-opt "
            "seccomp=unconfined --security-opt systempaths=unconfined); on Ubuntu, `sysctl "
            "kernel.apparmor_restrict_unprivileged_userns` must be 0")


class NoSandbox(RuntimeError):
    """bubblewrap is not here, or may not do its work."""


def require() -> None:
    """Raises: NoSandbox, saying what to do."""
    if shutil.which("bwrap") is None:
        raise NoSandbox(
            "bubblewrap is not installed, so submissions are not run: their code could read and change whatever you "
            "can. Install it (Debian, Ubuntu: apt install bubblewrap), mark on a Linux machine, or, if you trust every "
            "submission, allow it: nbgrader autograde ... --MarkExercises.unsafe=True")
    as_ranks_do = ["unshare", "--mount", "--ipc", "--pid", "--fork", "--mount-proc"] if shutil.which("unshare") else []
    tried = subprocess.run([*_bubblewrap(1 << 20, may_isolate=True), *as_ranks_do, "true"], capture_output=True, text=True)
    if tried.returncode:
        raise NoSandbox(_REFUSED.format(tried.stderr.strip()))


def prepare_for_child() -> None:
    """Called where one that will run programs is about to be forked: it need not import torch for them."""
    source().prepare_for_child(_bubblewrap(1 << 20, may_isolate=False), _environment(COURSE, HOME))


def run(arguments: Sequence[str], data: bytes, limits: Limits = USUAL, may_isolate: bool = False,
        unsafe: bool = False, code: Sequence[str] = (), hidden: Sequence[str] = ()) -> Finished:
    """Run Python with these arguments and with `data` on its standard input, and take what it writes.

    It sees the system's programs, this Python, utils and grader.sandbox, all read-only, and empty folders of its own; its
    network is a loopback of its own, its environment is made anew. may_isolate: it may make namespaces within
    (grader.sandbox.isolation). hidden: modules of ours that it has by name only (grader.sandbox.hiding). unsafe: none of
    this, only the limits that do not need it.
    """
    group = ControlGroup(limits.memory_bytes + 2 * limits.disk_bytes, limits.tasks)
    try:
        if not unsafe:
            with without(hidden) as copies:
                return Watch(_forked(arguments, limits, group, may_isolate, code, copies), limits, group).follow(data)
        with _started(arguments, limits, group, code) as program:
            return Watch(program, limits, group).follow(data)
    finally:
        group.remove()


def _forked(arguments: Sequence[str], limits: Limits, group: ControlGroup, may_isolate: bool, code: Sequence[str],
            copies: Mapping[str, str]) -> Forked:
    """What holds the sandbox open is held to the same as the program, which may be able to write into its memory."""
    own = _own_limits(limits) | {"nproc": limits.tasks}  # counted apart for each sandbox (but not where root's)
    entry = Entry(
        tuple(arguments), _environment(COURSE, HOME), HOME, groups=group.folders, niceness=NICENESS,
        limits=tuple((getattr(resource, f"RLIMIT_{name.upper()}"), most) for name, most in own.items()),
        capabilities=tuple(CAPABILITIES.values()) if may_isolate else ())
    bubblewrap = _bubblewrap(limits.disk_bytes, may_isolate, (*CODE, *code), copies)
    try:
        return Forked([*group.command(), *_politely()], bubblewrap, _limited(own), entry)
    except NotEntered as error:
        raise NoSandbox(_REFUSED.format(error)) from None


@contextlib.contextmanager
def _started(arguments: Sequence[str], limits: Limits, group: ControlGroup, code: Sequence[str]) -> Iterator[Started]:
    """Without a sandbox: only the limits that do not need one."""
    with tempfile.TemporaryDirectory(prefix="marking-", ignore_cleanup_errors=True) as folder:
        for part in (*CODE, *code):
            (Path(folder) / "course" / part).parent.mkdir(parents=True, exist_ok=True)
            (Path(folder) / "course" / part).symlink_to(ROOT / part)
        command = [*group.command(), *_politely(), *_limited(_own_limits(limits)), sys.executable, *arguments]
        yield Started(command, {**os.environ, **_environment(f"{folder}/course", folder)}, folder)


def _politely() -> list[str]:
    return ["nice", "-n", str(NICENESS)] if shutil.which("nice") else []


def _own_limits(limits: Limits) -> dict[str, int]:
    """What the kernel holds each process to, by the names that prlimit and RLIMIT_… share.

    Memory: a little more than all may use together, so that the watch, not an error in a rank, is what ends a hoarder.
    """
    return {"cpu": limits.cpu_s, "data": limits.memory_bytes + limits.disk_bytes, "core": 0,
            "nofile": _at_most(OPEN_FILES, resource.RLIMIT_NOFILE),
            "sigpending": _at_most(WAITING_SIGNALS, resource.RLIMIT_SIGPENDING)}


def _at_most(most: int, kind: int) -> int:
    """No more than this process may have itself."""
    allowed = resource.getrlimit(kind)[1]
    return most if allowed == resource.RLIM_INFINITY else min(most, allowed)


def _limited(own_limits: dict[str, int]) -> list[str]:
    words = [f"--{name}={most}" for name, most in own_limits.items()]
    return ["prlimit", *words, "--"] if shutil.which("prlimit") else []


def _environment(course: str, home: str) -> dict[str, str]:
    return {"PATH": f"{sys.prefix}/bin:/usr/local/bin:/usr/bin:/bin", "HOME": home, "USER": "student", "LANG": "C.UTF-8",
            "PYTHONPATH": course, "GRADER_CHECKS": "grader.sandbox.hand_over", "PYTHONDONTWRITEBYTECODE": "1",
            "TORCH_CPP_LOG_LEVEL": "ERROR", "PIP_NO_INDEX": "1",  # there is no network to wait for
            "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # the others that are marked need the processors too


def _bubblewrap(disk_bytes: int, may_isolate: bool, code: Sequence[str] = CODE,
                copies: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """Its command, up to what it is to start. copies: folder of the project -> what is to be there in its place."""
    command = ["bwrap", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-net", "--unshare-uts",
               "--unshare-cgroup-try", "--uid", "0", "--gid", "0", "--hostname", "sandbox", "--cap-drop", "ALL",
               *([word for name in CAPABILITIES for word in ("--cap-add", name)] if may_isolate else []),
               "--die-with-parent", "--new-session", "--clearenv"]
    command += ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev",  # root could set the host's
                "--dev-bind", "/dev/null", "/dev/zero"]  # which, mapped, is memory that nobody counts
    for folder in ("/dev/shm", "/tmp"):  # before what follows: this Python may itself be below /tmp
        command += ["--size", str(disk_bytes), "--tmpfs", folder]
    for path in SYSTEM:
        if os.path.islink(path):
            command += ["--symlink", os.readlink(path), path]
        elif os.path.exists(path):
            command += ["--ro-bind", path, path]
    hidden = [path for path in (EXCHANGE, str(ROOT)) if path.startswith("/usr/") and os.path.isdir(path)]
    for path in hidden:
        command += ["--tmpfs", path]
    for prefix in dict.fromkeys((sys.base_prefix, sys.prefix)):
        if not f"{prefix}/".startswith("/usr/") or any(prefix.startswith(f"{path}/") for path in hidden):
            command += ["--ro-bind", prefix, prefix]
    for part, path in ({part: str(ROOT / part) for part in code} | dict(copies)).items():
        command += ["--ro-bind", path, f"{COURSE}/{part}"]
    command += ["--dir", HOME, "--chdir", HOME, "--remount-ro", "/dev", "--remount-ro", "/"]
    for name, value in _environment(COURSE, HOME).items():
        command += ["--setenv", name, value]
    return command
