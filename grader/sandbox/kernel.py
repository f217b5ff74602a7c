"""A notebook's kernel, forked from a process that has torch in memory: to start one anew takes two seconds."""

import os
import signal
import sys
import traceback
from dataclasses import dataclass
from typing import Any

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning import LocalProvisioner

from utils.ranks.server import ForkedProcess, RankServer

PROGRAM = "ipykernel_launcher"


@dataclass(frozen=True)
class Start:
    """How a kernel begins."""

    arguments: tuple[str, ...]
    environment: dict[str, str]
    folder: str


class ForkedKernel(LocalProvisioner):
    """Starts a kernel for jupyter_client, from a server."""

    server: RankServer

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """cmd: what would start it anew."""
        start = Start(tuple(cmd[cmd.index(PROGRAM):]), dict(kwargs["env"]), str(kwargs["cwd"]))
        self.process = _Process(self.server.fork(kernel_main, start, []))
        self.pid = self.pgid = self.process.pid  # it begins a session of its own
        self.cwd = start.folder
        return self.connection_info


class _Process:
    """As subprocess.Popen, as far as it is needed."""

    stdin = stdout = stderr = None

    def __init__(self, forked: ForkedProcess):
        self._forked, self.pid, self.kill = forked, forked.pid, forked.kill

    def poll(self) -> int | None:
        self._forked.join(0)
        return self._forked.exitcode

    def wait(self) -> int | None:
        self._forked.join()
        return self._forked.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


def kernel_main(start: Start) -> None:
    """The kernel's process."""
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ.clear()
        os.environ.update(start.environment)
        os.chdir(start.folder)
        sys.argv[:] = start.arguments
        _do_without_debugger()
        from ipykernel.kernelapp import launch_new_instance

        launch_new_instance()
    except SystemExit as error:
        os._exit(error.code if isinstance(error.code, int) else 1)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _do_without_debugger() -> None:
    """Nobody stops at a line here, and to import debugpy takes longer than all else that a kernel does to begin."""
    sys.modules["debugpy"] = None
    import ipykernel.debugger  # noqa: F401

    del sys.modules["debugpy"]
