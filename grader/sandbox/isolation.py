"""A rank in namespaces of its own (Linux): it sees no process, file or shared memory of another rank, only the network.

Needs CAP_SYS_ADMIN and CAP_SETPCAP in the caller's user namespace, as inside a sandbox; gives every capability up for good.
"""

import ctypes
import os
from collections.abc import Sequence

from grader.sandbox.syscalls import refuse_side_channels

SCRATCH_BYTES, SCRATCH_FILES = 256 << 20, 400  # of each folder; names of files are memory, too
_CLONE_NEWNS, _CLONE_NEWIPC, _CLONE_NEWPID = 0x00020000, 0x08000000, 0x20000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT = 0x1, 0x2, 0x4, 0x8, 0x20
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
_PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 4, 24, 38
_CAPABILITY_VERSION_3, _LAST_CAPABILITY = 0x20080522, 63

OWN_FOLDERS = ("/tmp", "/dev/shm")
_KERNEL_SETTINGS = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs")  # root's to write, even here
_FLAGS = {"nosuid": _MS_NOSUID, "nodev": _MS_NODEV, "noexec": _MS_NOEXEC}

_libc = ctypes.CDLL(None, use_errno=True)


def fork_apart() -> None:
    """From now on each process that this one forks begins a process namespace of its own; it is to call `isolate`.

    A second fork, from within, would do the same at the cost of copying the process's tables twice.
    """
    original = os.open("/proc/self/ns/pid", os.O_RDONLY)
    here = os.getpid()

    def unshare() -> None:
        if os.getpid() == here:
            _call("setns", original, _CLONE_NEWPID)
            _call("unshare", _CLONE_NEWPID)

    os.register_at_fork(before=unshare, after_in_child=lambda: os.getpid() == 1 and os.close(original))


def isolate() -> None:
    """Give the first process of a process namespace (see `fork_apart`) its own mounts and IPC, and nothing to share.

    It has empty folders at /tmp (where it stands) and /dev/shm, no terminals, nothing else that it can write to, no
    capabilities, and sockets of the internet families only, so that everything it tells another rank crosses the network
    that is counted. Whatever it starts ends with it.

    Raises: OSError where the system does not allow it.
    """
    if os.getpid() != 1:
        raise OSError("only the first process of a namespace can be isolated: fork it from a process that has called "
                      "fork_apart")
    _call("unshare", _CLONE_NEWNS | _CLONE_NEWIPC)
    _mount(None, b"/", None, _MS_REC | _MS_PRIVATE)
    for folder in OWN_FOLDERS:
        _empty(folder)
    _mount(b"tmpfs", b"/dev/pts", b"tmpfs", _MS_RDONLY | _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    _mount(b"proc", b"/proc", b"proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    _protect_what_is_shared()
    os.chdir("/tmp")
    keep_capabilities()
    refuse_side_channels()


def _empty(folder: str) -> None:
    """A new empty folder over `folder`; what is mounted below it (a Python that is installed there) stays."""
    kept = [(path, os.open(path, os.O_PATH)) for path, _ in _mounts() if path.startswith(f"{folder}/")]
    _mount(b"tmpfs", folder.encode(), b"tmpfs", _MS_NOSUID | _MS_NODEV,
           f"size={SCRATCH_BYTES},nr_inodes={SCRATCH_FILES}".encode())
    for path, descriptor in kept:
        os.makedirs(path, exist_ok=True)
        _mount(f"/proc/self/fd/{descriptor}".encode(), path.encode(), None, _MS_BIND)
        os.close(descriptor)


def _protect_what_is_shared() -> None:
    """Read-only: every file system that other ranks see too, and the settings of the kernel."""
    for path in _KERNEL_SETTINGS:
        if os.path.exists(path):
            _mount(path.encode(), path.encode(), None, _MS_BIND)
            _make_read_only(path, _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    for path, options in _mounts():
        if "rw" in options and path not in OWN_FOLDERS and not path.startswith("/proc"):
            _make_read_only(path, sum(flag for name, flag in _FLAGS.items() if name in options))


def _make_read_only(path: str, flags: int) -> None:
    _mount(None, path.encode(), None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | flags)


def _mounts() -> list[tuple[str, list[str]]]:
    """(where, options) of each mount; the last of several at one place is the one that is seen."""
    with open("/proc/self/mountinfo") as file:
        mounts = [line.split() for line in file]
    return [(fields[4].encode().decode("unicode_escape"), fields[5].split(",")) for fields in mounts]  # a space is \\040


def keep_capabilities(kept: Sequence[int] = ()) -> None:
    """Give all others up, for good: no program that is started has more."""
    for capability in range(_LAST_CAPABILITY + 1):
        if capability not in kept:
            _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)  # fails beyond the last that this kernel knows
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    bits = sum(1 << capability for capability in kept)
    low, high = bits & 0xFFFFFFFF, bits >> 32
    _call("capset", header, (ctypes.c_uint32 * 6)(low, low, 0, high, high, 0))  # effective, permitted, inheritable
    _call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def join_namespace(descriptor: int) -> None:
    """Of another process, through an open file of /proc/<pid>/ns. Of processes: for those that are forked from now on.

    Raises: OSError.
    """
    _call("setns", descriptor, 0)


def become_visible() -> None:
    """A process that has joined a namespace of users may not read its own files in /proc, until it says that it wants to."""
    _call("prctl", _PR_SET_DUMPABLE, 1, 0, 0, 0)


def _mount(source: bytes | None, target: bytes, kind: bytes | None, flags: int, options: bytes | None = None) -> None:
    _call("mount", source, target, kind, ctypes.c_ulong(flags), options)


def _call(name: str, *arguments) -> None:
    if getattr(_libc, name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
