"""Seccomp filters (Linux): system calls that a program in a sandbox may not make from now on, nor whatever it starts.

Python, torch and gloo need none of them; where libc tries one first, it goes on without.
"""

import ctypes
import os
import platform
import struct
from collections.abc import Sequence

_PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_VMA, _SECCOMP_MODE_FILTER = 4, 22, 0x53564D41, 2
_EPERM, _ENOSYS = 1, 38

# machine: (audit number, {call: number}); linux/audit.h, unistd.h
_MACHINES = {
    "x86_64": (0xC000003E, {
        "mmap": 9, "shmget": 29, "socket": 41, "socketpair": 53, "setsockopt": 54, "clone": 56, "execve": 59, "semget": 64,
        "msgget": 68, "fcntl": 72, "flock": 73, "prctl": 157, "mount": 165, "mq_open": 240, "add_key": 248,
        "request_key": 249, "keyctl": 250, "inotify_init": 253, "unshare": 272, "inotify_init1": 294,
        "perf_event_open": 298, "fanotify_init": 300, "setns": 308, "memfd_create": 319, "bpf": 321, "execveat": 322,
        "userfaultfd": 323}),
    "aarch64": (0xC00000B7, {
        "fcntl": 25, "inotify_init1": 26, "flock": 32, "mount": 40, "unshare": 97, "prctl": 167, "mq_open": 180,
        "msgget": 186, "semget": 190, "shmget": 194, "socket": 198, "socketpair": 199, "setsockopt": 208, "add_key": 217,
        "request_key": 218, "keyctl": 219, "clone": 220, "execve": 221, "mmap": 222, "perf_event_open": 241,
        "fanotify_init": 262, "setns": 268, "memfd_create": 279, "bpf": 280, "execveat": 281, "userfaultfd": 282})}
_EVERYWHERE = {"io_uring_setup": 425, "open_tree": 428, "fsopen": 430, "clone3": 435, "memfd_secret": 447}

# Memory that outlives its place in a process, where nobody counts it; and namespaces, in which more can be had.
_UNSEEN_MEMORY = ("memfd_create", "memfd_secret", "shmget", "msgget", "semget", "mq_open", "add_key", "request_key",
                  "keyctl", "io_uring_setup", "bpf", "perf_event_open", "userfaultfd",
                  "unshare", "setns", "mount", "open_tree", "fsopen")
# What tells another rank something; another program would not know what is forbidden here; pairs of sockets keep what nobody
# weighs, open files too.
_SIDE_CHANNELS = ("flock", "inotify_init", "inotify_init1", "fanotify_init", "execve", "execveat", "socketpair")

_SHARED_AND_NAMELESS = 0x21  # MAP_SHARED, MAP_ANONYMOUS: pages that a process can let go of, and have again
_NAMESPACES = 0x7E020000  # CLONE_NEW…
# What fcntl may not do: locks of records (of a process, of an open file), leases, notices. Seen on files that all may read.
_LOCKS = (5, 6, 7, 36, 37, 38, 1024, 1025, 1026)
_SOCKET_FAMILIES, _NETLINK = (2, 10), 16  # AF_INET, AF_INET6; no unix sockets
_NETLINK_ROUTE = 0  # gloo asks it for interfaces; others carry messages between processes
_SOL_SOCKET, _FILTERS = 1, (26, 50, 51, 52)  # SO_ATTACH_…: a program that the kernel keeps, and gives back

Step = tuple[int, int, str | int, str | int]  # (code, value, where to if true, if false: a label, or so many steps on)
_LOAD, _AND, _EQUAL, _AT_LEAST, _ANY_OF, _ANSWER = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_ANSWERS = {"refuse": 0x00050000 | _EPERM, "unknown": 0x00050000 | _ENOSYS, "allow": 0x7FFF0000, "kill": 0x80000000}
_CALL, _MACHINE = 0, 4  # places in struct seccomp_data; of an argument, its lower half:
_FIRST, _SECOND, _THIRD, _FOURTH = 16, 24, 32, 40


def refuse_unseen_memory() -> None:
    """From now on: memory only where it is counted.  Raises: OSError."""
    _install(_UNSEEN_MEMORY, _NO_UNSEEN_MEMORY)


def refuse_side_channels() -> None:
    """For a rank: internet sockets only (and netlink's for interfaces), no locks or notices of files, no other programs, no
    memory but what is weighed.  Raises: OSError.
    """
    _install((*_UNSEEN_MEMORY, *_SIDE_CHANNELS), _NO_UNSEEN_MEMORY | _NO_SIDE_CHANNELS)


# ── calls that are refused for what they are asked ──

_NO_UNSEEN_MEMORY: dict[str, list[Step]] = {
    "mmap": [(_LOAD, _FOURTH, 0, 0), (_AND, _SHARED_AND_NAMELESS, 0, 0), (_EQUAL, _SHARED_AND_NAMELESS, "refuse", "allow")],
    "clone": [(_LOAD, _FIRST, 0, 0), (_ANY_OF, _NAMESPACES, "refuse", "allow")],
    "clone3": [(_ANSWER, _ANSWERS["unknown"], 0, 0)],  # what it is asked lies in memory; libc then uses clone
    "setsockopt": [(_LOAD, _SECOND, 0, 0), (_EQUAL, _SOL_SOCKET, 0, "allow"), (_LOAD, _THIRD, 0, 0),
                   *((_EQUAL, option, "refuse", 0) for option in _FILTERS), (_ANSWER, _ANSWERS["allow"], 0, 0)],
}
_NO_SIDE_CHANNELS: dict[str, list[Step]] = {
    "fcntl": [(_LOAD, _SECOND, 0, 0), *((_EQUAL, command, "refuse", 0) for command in _LOCKS),
              (_ANSWER, _ANSWERS["allow"], 0, 0)],
    "prctl": [(_LOAD, _FIRST, 0, 0), (_EQUAL, _PR_SET_DUMPABLE, "refuse", 0),  # who hides from the witness
              (_EQUAL, _PR_SET_VMA, "refuse", "allow")],  # names of pages
    "socket": [(_LOAD, _FIRST, 0, 0), *((_EQUAL, family, "allow", 0) for family in _SOCKET_FAMILIES),
               (_EQUAL, _NETLINK, 0, "refuse"), (_LOAD, _THIRD, 0, 0), (_EQUAL, _NETLINK_ROUTE, "allow", "refuse")],
}


# ── the filter ──


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def _install(refused: Sequence[str], looked_at: dict[str, list[Step]]) -> None:
    """Needs what keep_capabilities has done: this process's programs get no privileges."""
    machine = platform.machine()
    if machine not in _MACHINES:
        raise OSError(f"no list of system calls for {machine}: known are {', '.join(_MACHINES)}")
    audit_number, numbers = _MACHINES[machine]
    program = _filter(audit_number, numbers | _EVERYWHERE, refused, looked_at)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(_Program(len(program) // 8, program)), 0, 0):
        raise OSError(ctypes.get_errno(), f"seccomp: {os.strerror(ctypes.get_errno())}")


def _filter(audit_number: int, numbers: dict[str, int], refused: Sequence[str], looked_at: dict[str, list[Step]]) -> bytes:
    """Berkeley packet filter code over struct seccomp_data."""
    steps: list[Step] = [
        (_LOAD, _MACHINE, 0, 0), (_EQUAL, audit_number, 0, "kill"),
        (_LOAD, _CALL, 0, 0), (_AT_LEAST, 0x40000000, "kill", 0),  # x32 numbers would slip past
        *((_EQUAL, numbers[name], "refuse", 0) for name in refused if name in numbers)]
    for name, look in looked_at.items():
        steps += [(_EQUAL, numbers[name], 0, len(look)), *look]
    steps += [(_ANSWER, _ANSWERS["allow"], 0, 0)]
    ends = {label: len(steps) + number for number, label in enumerate(_ANSWERS)}
    code = b""
    for place, (operation, value, yes, no) in enumerate(steps):
        jumps = [ends[to] - place - 1 if isinstance(to, str) else to for to in (yes, no)]
        code += struct.pack("=HBBI", operation, *jumps, value)
    return code + b"".join(struct.pack("=HBBI", _ANSWER, 0, 0, value) for value in _ANSWERS.values())
