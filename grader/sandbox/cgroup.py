"""A Linux control group (version 1 or 2) for one program: the memory and the processes that all of it may use."""

import contextlib
import os
import secrets
import time
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")
_MEMORY_FILES = ("memory.max", "memory.limit_in_bytes")  # version 2, version 1
_ENTER = 'while [ "$1" != -- ]; do echo $$ > "$1/cgroup.procs" || exit 97; shift; done; shift; exec "$@"'


class ControlGroup:
    """Folders of the controllers that could be had: `limits` names them, of "pids" and "memory"."""

    def __init__(self, memory_bytes: int, tasks: int):
        self._folders: dict[str, Path] = {}
        name = f"marking-{secrets.token_hex(8)}"
        for controller, files, value in (("pids", ("pids.max",), tasks), ("memory", _MEMORY_FILES, memory_bytes)):
            parent = _parent(controller)
            if parent is None:
                continue
            folder = parent / name
            with contextlib.suppress(OSError):
                folder.mkdir(exist_ok=True)
                file = next((folder / file for file in files if (folder / file).exists()), None)
                if file is None:
                    folder.rmdir()
                    continue
                file.write_text(str(value))
                self._folders[controller] = folder

    @property
    def limits(self) -> frozenset[str]:
        return frozenset(self._folders)

    @property
    def folders(self) -> tuple[str, ...]:
        """Into whose cgroup.procs a process writes its number to enter."""
        return tuple(dict.fromkeys(map(str, self._folders.values())))

    def command(self) -> list[str]:
        """What stands before a command so that it starts inside the group."""
        return ["sh", "-c", _ENTER, "sh", *self.folders, "--"] if self._folders else []

    def tasks_refused(self) -> bool:
        """Whether a process or thread could not be started for the limit."""
        return self._counted("pids", "pids.events", "max") > 0

    def memory_refused(self) -> bool:
        """Whether a process was ended for the limit of memory."""
        return self._counted("memory", "memory.events", "oom_kill") + self._counted(
            "memory", "memory.oom_control", "oom_kill") > 0

    def remove(self) -> None:
        """Give the group back, once all in it have ended."""
        for folder in set(self._folders.values()):
            for _ in range(100):
                try:
                    folder.rmdir()
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.01)  # the last process is being buried
                else:
                    break

    def _counted(self, controller: str, file: str, key: str) -> int:
        try:
            lines = (self._folders[controller] / file).read_text().splitlines()
            return sum(int(line.split()[1]) for line in lines if line.split()[0] == key)
        except (KeyError, OSError, ValueError, IndexError):
            return 0


def _parent(controller: str) -> Path | None:
    """This process's own group, if groups can be made in it."""
    try:
        entries = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    except OSError:
        return None
    for _, controllers, path in entries:
        if controller in controllers.split(","):  # version 1
            folder = MOUNT / controllers / path.lstrip("/")
            return folder if os.access(folder, os.W_OK) else None
    for _, controllers, path in entries:
        folder = MOUNT / path.lstrip("/")
        with contextlib.suppress(OSError):
            if not controllers and controller in (folder / "cgroup.subtree_control").read_text().split():
                return folder if os.access(folder, os.W_OK) else None
    return None
