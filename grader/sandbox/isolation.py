"""A rank in namespaces of its own (Linux): it sees no process, file or shared memory of another rank, only the network.

Needs CAP_SYS_ADMIN and CAP_SETPCAP in the caller's user namespace, as inside a sandbox; gives every capability up for good.
"""

import ctypes
import os
import platform
import struct
from collections.abc import Sequence

SCRATCH_BYTES = 256 << 20
_CLONE_NEWNS, _CLONE_NEWIPC, _CLONE_NEWPID = 0x00020000, 0x08000000, 0x20000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT = 0x1, 0x2, 0x4, 0x8, 0x20
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
_PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 4, 22, 24, 38
_SECCOMP_MODE_FILTER, _CAPABILITY_VERSION_3, _LAST_CAPABILITY = 2, 0x20080522, 63

# machine: (audit number, socket, fcntl, mmap, prctl, [calls that are refused: keyctl, add_key, request_key, flock,
# inotify_init1, fanotify_init, io_uring_setup, which would make sockets past this filter, execve, execveat, for another
# program would not know what is forbidden here, memfd_create, memfd_secret, shmget, msgget, semget, mq_open, whose memory
# nobody weighs]); linux/audit.h, unistd.h
_CALLS = {"x86_64": (0xC000003E, 41, 72, 9, 157, [250, 248, 249, 73, 294, 300, 425, 59, 322, 319, 447, 29, 68, 64, 240,
                                             253]),  # inotify_init
          "aarch64": (0xC00000B7, 198, 25, 222, 167, [219, 217, 218, 32, 26, 262, 425, 221, 281, 279, 447, 194, 186, 190,
                                                       180])}
_SHARED_AND_NAMELESS = 0x21  # MAP_SHARED, MAP_ANONYMOUS: pages that a process can let go of, and have again
# What fcntl may not do: locks of records (of a process, of an open file), leases, notices. Seen on files that all may read.
_LOCKS = (5, 6, 7, 36, 37, 38, 1024, 1025, 1026)
_SOCKET_FAMILIES, _NETLINK = (2, 10), 16  # AF_INET, AF_INET6; no unix sockets
_NETLINK_ROUTE = 0  # gloo asks it for interfaces; others carry messages between processes
_EPERM = 1
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

    It has empty folders at /tmp (where it stands) and /dev/shm, terminals of its own, nothing else that it can write to, no
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
    _mount(b"devpts", b"/dev/pts", b"devpts", _MS_NOSUID | _MS_NOEXEC, b"ptmxmode=0666")
    _mount(b"proc", b"/proc", b"proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    _mount(b"/dev/null", b"/dev/zero", None, _MS_BIND)  # mapped, it is nameless memory, too
    _protect_what_is_shared()
    os.chdir("/tmp")
    keep_capabilities()
    _refuse_side_channels()


def _empty(folder: str) -> None:
    """A new empty folder over `folder`; what is mounted below it (a Python that is installed there) stays."""
    kept = [(path, os.open(path, os.O_PATH)) for path, _ in _mounts() if path.startswith(f"{folder}/")]
    _mount(b"tmpfs", folder.encode(), b"tmpfs", _MS_NOSUID | _MS_NODEV, f"size={SCRATCH_BYTES}".encode())
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
        if "rw" in options and path not in ("/dev/pts", *OWN_FOLDERS) and not path.startswith("/proc"):
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


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def _refuse_side_channels() -> None:
    """A seccomp filter: internet sockets only (and netlink's for interfaces), no keyrings, no locks or notices of files,
    no other programs, no files in memory, nor other memory that outlives its place in a process.

    Python, torch and gloo need none of these in a rank.
    """
    machine = platform.machine()
    if machine not in _CALLS:
        raise OSError(f"no list of system calls for {machine}: known are {', '.join(_CALLS)}")
    program = _filter(*_CALLS[machine])
    _call("prctl", _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER,
          ctypes.byref(_Program(len(program) // 8, program)), 0, 0)


def _filter(audit_number: int, socket_call: int, fcntl_call: int, mmap_call: int, prctl_call: int,
            refused: list[int]) -> bytes:
    """Berkeley packet filter code over struct seccomp_data (call number at 0, machine at 4, arguments at 16, 24, … 40)."""
    load, mask, equal, at_least, answer = 0x20, 0x54, 0x15, 0x35, 0x06
    allow, refuse, kill = 0x7FFF0000, 0x00050000 | _EPERM, 0x80000000
    of_fcntl = [(load, 24, 0, 0), *((equal, command, "refuse", 0) for command in _LOCKS), (answer, allow, 0, 0)]
    of_mmap = [(load, 40, 0, 0), (mask, _SHARED_AND_NAMELESS, 0, 0), (equal, _SHARED_AND_NAMELESS, "refuse", "allow")]
    of_prctl = [(load, 16, 0, 0), (equal, _PR_SET_DUMPABLE, "refuse", "allow")]  # who hides from the witness
    steps: list[tuple[int, int, str | int, str | int]] = [  # (code, value, where to if true, if false: a label, or steps)
        (load, 4, 0, 0), (equal, audit_number, 0, "kill"),
        (load, 0, 0, 0), (at_least, 0x40000000, "kill", 0),  # x32 numbers would slip past
        *((equal, number, "refuse", 0) for number in refused),
        (equal, fcntl_call, 0, len(of_fcntl)), *of_fcntl,
        (equal, mmap_call, 0, len(of_mmap)), *of_mmap,
        (equal, prctl_call, 0, len(of_prctl)), *of_prctl,
        (equal, socket_call, 0, "allow"),
        (load, 16, 0, 0), *((equal, family, "allow", 0) for family in _SOCKET_FAMILIES),
        (equal, _NETLINK, 0, "refuse"), (load, 32, 0, 0), (equal, _NETLINK_ROUTE, "allow", 0)]
    ends = {"refuse": len(steps), "allow": len(steps) + 1, "kill": len(steps) + 2}
    code = b""
    for place, (operation, value, yes, no) in enumerate(steps):
        jumps = [ends[to] - place - 1 if isinstance(to, str) else to for to in (yes, no)]
        code += struct.pack("=HBBI", operation, *jumps, value)
    return code + b"".join(struct.pack("=HBBI", answer, 0, 0, value) for value in (refuse, allow, kill))


def _mount(source: bytes | None, target: bytes, kind: bytes | None, flags: int, options: bytes | None = None) -> None:
    _call("mount", source, target, kind, ctypes.c_ulong(flags), options)


def _call(name: str, *arguments) -> None:
    if getattr(_libc, name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
