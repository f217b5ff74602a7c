"""A real Jupyter kernel for tests: run code, read what it prints, interrupt it, kill it."""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
from jupyter_client.manager import start_new_kernel

ROOT = Path(__file__).resolve().parent.parent


@contextlib.contextmanager
def kernel() -> "Iterator[Kernel]":
    """A kernel that can import the course, shut down at the end."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    manager, client = start_new_kernel(kernel_name="python3", env=environment, cwd=str(ROOT))
    try:
        yield Kernel(manager, client)
    finally:
        client.stop_channels()
        with contextlib.suppress(RuntimeError):
            manager.shutdown_kernel(now=True)


class Kernel:
    """What a notebook page does with its kernel."""

    def __init__(self, manager, client):
        self.manager, self.client = manager, client

    @property
    def pid(self) -> int:
        return self.manager.provisioner.pid

    def run(self, code: str, timeout_s: float = 60.0) -> str:
        """Run a cell; everything that it shows, as text."""
        shown: list[str] = []
        reply = {"content": {"status": "aborted"}}
        while reply["content"]["status"] == "aborted":  # after an error ipykernel drops what comes while it clears its queue
            reply = self.client.execute_interactive(code, timeout=timeout_s, output_hook=lambda m: shown.append(_text(m)))
        return "".join(shown)

    def start(self, code: str, until: str, timeout_s: float = 60.0) -> None:
        """Start a cell and come back when it has printed `until`."""
        self.client.execute(code)
        seen, deadline = "", time.monotonic() + timeout_s
        while until not in seen:
            assert time.monotonic() < deadline, seen
            with contextlib.suppress(Exception):
                seen += _text(self.client.get_iopub_msg(timeout=1))

    def finish(self, timeout_s: float = 30.0) -> str:
        """Wait for the end of what `start` started; what it has shown since."""
        self.client.get_shell_msg(timeout=timeout_s)
        shown, state = "", ""
        while state != "idle":
            message = self.client.get_iopub_msg(timeout=timeout_s)
            shown, state = shown + _text(message), message["content"].get("execution_state", "")
        return shown

    def family(self) -> list[psutil.Process]:
        """All processes that the kernel has started, and theirs."""
        return psutil.Process(self.pid).children(recursive=True)


def wait_until_gone(processes: list[psutil.Process], timeout_s: float = 15.0) -> list[psutil.Process]:
    """Those that are still alive in the end."""
    return psutil.wait_procs(processes, timeout=timeout_s)[1]


def _text(message: dict) -> str:
    content = message["content"]
    if message["msg_type"] == "stream":
        return content["text"]
    if message["msg_type"] == "error":
        return "\n".join(content["traceback"]) + "\n"
    return content.get("data", {}).get("text/plain", "") + "\n" if "data" in content else ""
