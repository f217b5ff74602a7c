"""What ranks have started ends with them: every rank leads a session of its own, in which its children are."""

import contextlib
import os
import signal
from collections.abc import Collection

_GONE = (ProcessLookupError, PermissionError)


def end_sessions(leaders: Collection[int]) -> None:
    """Kill whoever is in the sessions that these processes lead, or led. Who began a session of its own goes on."""
    if not os.path.isdir("/proc/self"):  # then as many as can be reached without looking at every process
        for leader in leaders:
            with contextlib.suppress(*_GONE):
                os.killpg(leader, signal.SIGKILL)
        return
    killed: set[int] = set()
    while found := _members(leaders) - killed:  # again, for one of them may just have started another
        for process in found:
            with contextlib.suppress(*_GONE):
                os.kill(process, signal.SIGKILL)
        killed |= found


def _members(leaders: Collection[int]) -> set[int]:
    members = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(*_GONE):
            if os.getsid(int(name)) in leaders:
                members.add(int(name))
    return members
