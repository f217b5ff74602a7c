"""`make pictures`: the README's pictures, from a real run and a real browser."""

import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from PIL import Image

from grader.exercises import UNITS
from grader.site.build import build
from tests.course import Course
from tests.lab import ROOT, lab, open_notebook, page, run_all
from tests.notebooks import functions_of
from tests.submissions import pass_whole_tensors
from utils import run_ranks

FOLDER = ROOT / "pictures"
UNIT = "01_collectives"


def ring_timeline(path: Path) -> None:
    """The reference ring all-reduce of 16 MiB on four ranks, as its trace draws itself."""
    ring = functions_of("solutions", UNIT)["ring_all_reduce"]
    run = run_ranks(lambda: (ring(torch.ones(4 << 20), dist.group.WORLD), None)[1], 4)
    run.trace.timeline().save(path)


def answer_in_jupyterlab(path: Path) -> None:
    """What a student sees who passes whole tensors around the ring."""
    with tempfile.TemporaryDirectory() as folder:
        course = Course(Path(folder), UNIT, ["ring_all_reduce"])
        course.submit("student", pass_whole_tensors)
        file = course.root / "submitted" / "student" / UNIT / f"{UNIT}.ipynb"
        with lab(course.root) as address, page() as tab:
            tab.set_viewport_size({"width": 1100, "height": 1000})
            open_notebook(tab, address, str(file.relative_to(course.root)))
            run_all(tab, file)
            tab.locator(".jp-CodeCell").nth(2).screenshot(path=path)


def front_of_the_site(path: Path) -> None:
    """The first page of `make site`, without solutions."""
    with tempfile.TemporaryDirectory() as folder, page() as tab:
        build(Path(folder), UNITS, solved=False)
        tab.set_viewport_size({"width": 1200, "height": 820})
        tab.goto((Path(folder) / "index.html").as_uri())
        tab.screenshot(path=path)
    Image.open(path).convert("RGB").quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    ring_timeline(FOLDER / "ring_timeline.png")
    answer_in_jupyterlab(FOLDER / "answer.png")
    front_of_the_site(FOLDER / "site.png")


if __name__ == "__main__":
    main()
