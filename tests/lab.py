"""A JupyterLab server on a folder, and a real browser in front of it."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import nbformat
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
TOKEN = "token-of-a-test"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]


@contextlib.contextmanager
def lab(folder: Path) -> Iterator[str]:
    """Serve `folder`; the server's address. The server is ended on leaving."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    settings = os.pathsep.join([str(folder), str(ROOT / "tools")])  # as `make lab` has it: no question about news
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "JUPYTER_CONFIG_PATH": settings}
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}",
               f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={folder}"]
    with open(folder / "lab.log", "w") as log:
        server = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        address = f"http://127.0.0.1:{port}"
        _wait_for(address, folder / "lab.log")
        yield address
    finally:
        server.terminate()
        server.wait(30)


@contextlib.contextmanager
def page() -> Iterator[Page]:
    """A page of Debian's chromium."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            yield browser.new_page(viewport={"width": 1280, "height": 900})
        finally:
            browser.close()


def open_notebook(page: Page, address: str, path: str) -> None:
    """Open a notebook and wait for its kernel."""
    page.goto(f"{address}/lab/tree/{path}?token={TOKEN}")
    page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)
    page.wait_for_selector(".jp-Notebook-ExecutionIndicator[data-status=idle]", timeout=60_000)


def run_all(page: Page, file: Path, timeout_s: float = 240.0) -> nbformat.NotebookNode:
    """Run > Run All Cells, save, and the notebook as it is then on disk."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if page.locator(".jp-InputArea-prompt:text-matches('\\[(\\d+|\\*)\\]')").count() == 0:
            page.click("text=Run >> nth=0")  # again, if it came before the kernel could take it
            page.click("text=Run All Cells")
        page.wait_for_timeout(500)
        if page.get_attribute(".jp-Notebook-ExecutionIndicator", "data-status") != "idle":
            continue
        page.keyboard.press("Control+s")
        page.wait_for_timeout(500)
        notebook = nbformat.read(file, as_version=4)
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        if code[-1].execution_count or errors_of(notebook):
            return notebook
    raise TimeoutError(f"{file.name} was not done after {timeout_s} s")


def errors_of(notebook: nbformat.NotebookNode) -> list[str]:
    return [f"{cell.id}: {output.ename}: {output.evalue}" for cell in notebook.cells if cell.cell_type == "code"
            for output in cell.outputs if output.output_type == "error"]


def _wait_for(address: str, log: Path, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{address}/api", timeout=2)
            return
        time.sleep(0.3)
    raise TimeoutError(f"JupyterLab did not answer:\n{log.read_text()[-2000:]}")
