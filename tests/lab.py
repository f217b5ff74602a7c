"""A JupyterLab server on a folder, and a real browser in front of it."""

import contextlib
import json
import os
import random
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
from playwright.sync_api import TimeoutError as PlaywrightTimeout

ROOT = Path(__file__).resolve().parent.parent
TOKEN = "token-of-a-test"
CLICK_MS = 10_000
BEGUN = ".jp-InputArea-prompt:text-matches('\\[(\\d+|\\*)\\]'), .jp-Notebook-ExecutionIndicator[data-status=busy]"
PATIENCE_S = 240.0  # for a page, a click, a whole notebook: on a busy machine all of them take their time
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]


@contextlib.contextmanager
def lab(folder: Path) -> Iterator[str]:
    """Serve `folder`; the server's address. The server is ended on leaving."""
    port = _free_port()
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    settings = os.pathsep.join([str(folder), str(ROOT / "tools")])  # as `make lab` has it: no question about news
    workspaces = folder / ".workspaces"
    workspaces.mkdir(exist_ok=True)
    shutil.copy(ROOT / "tools" / "labconfig" / "first_look.json", workspaces / "default-37a8.jupyterlab-workspace")
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "JUPYTER_CONFIG_PATH": settings,
                   "JUPYTERLAB_WORKSPACES_DIR": str(workspaces)}
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
            tab = browser.new_page(viewport={"width": 1280, "height": 900})
            tab.set_default_timeout(1e3 * PATIENCE_S)
            yield tab
        finally:
            browser.close()


def open_notebook(page: Page, address: str, path: str) -> None:
    """Open a notebook and wait for its kernel."""
    page.goto(f"{address}/lab/tree/{path}?token={TOKEN}")
    page.wait_for_selector(".jp-Notebook .jp-Cell")
    deadline = time.monotonic() + PATIENCE_S
    while not _has_idle_kernel(address, path):  # the page shows idle before there is one, and then asks which to take
        _answer_questions(page)
        page.wait_for_timeout(500)
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path} had no kernel after {PATIENCE_S} s")
    page.wait_for_selector(".jp-Notebook-ExecutionIndicator[data-status=idle]")


def run_all(page: Page, file: Path, timeout_s: float = PATIENCE_S) -> nbformat.NotebookNode:
    """Run > Run All Cells, save, and the notebook as it is then on disk."""
    deadline, begun = time.monotonic() + timeout_s, False
    while time.monotonic() < deadline:
        _answer_questions(page)
        if not begun:
            try:  # again, if it came before the kernel could take it, or if a question came up meanwhile
                page.click("text=Run >> nth=0", timeout=CLICK_MS)
                page.click("text=Run All Cells", timeout=CLICK_MS)
                page.wait_for_selector(BEGUN, timeout=CLICK_MS)
                begun = True  # what is on the page later may be text alone
            except PlaywrightTimeout:
                continue
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


def _answer_questions(page: Page) -> None:
    """On a busy machine JupyterLab may have something to ask."""
    if page.locator("dialog.jp-Dialog").count():
        print("JupyterLab asks:", page.inner_text("dialog.jp-Dialog"))
        page.locator("dialog.jp-Dialog .jp-mod-accept").last.click()


def _has_idle_kernel(address: str, path: str) -> bool:
    """Whether the server has a kernel for this notebook, the page is connected to it, and it has nothing to do."""
    with urllib.request.urlopen(f"{address}/api/sessions?token={TOKEN}", timeout=PATIENCE_S) as answer:
        kernels = [session["kernel"] for session in json.load(answer) if session["path"] == path]
    return any(kernel["connections"] and kernel["execution_state"] == "idle" for kernel in kernels)


def errors_of(notebook: nbformat.NotebookNode) -> list[str]:
    return [f"{cell.id}: {output.ename}: {output.evalue}" for cell in notebook.cells if cell.cell_type == "code"
            for output in cell.outputs if output.output_type == "error"]


def _free_port() -> int:
    """A port that nobody has, and that no connection of ranks is given before the server takes it."""
    for port in random.sample(range(20_000, 32_000), 100):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise OSError("no port from 20000 to 31999 is free")


def _wait_for(address: str, log: Path, timeout_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{address}/api", timeout=2)
            return
        time.sleep(0.3)
    raise TimeoutError(f"JupyterLab did not answer:\n{log.read_text()[-2000:]}")
