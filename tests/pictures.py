"""`make pictures`: the README's pictures, from real runs and a real browser; options: ARGS="player.gif report.png"."""

import io
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import torch
import torch.distributed as dist
from nbformat import NotebookNode
from PIL import Image

from grader.exercises import UNITS
from grader.exercises.references import functions_of
from grader.site.build import build
from tests.answers import answers
from tests.course import Course, solution_cell
from tests.lab import ROOT, lab, open_notebook, page, run_all
from tests.submissions import pass_whole_tensors
from utils import run_ranks, simulate_ranks
from utils.figures.moment import Moments
from utils.figures.planner_figures import plan_time_figure
from utils.models.mesh_stage import MeshStage, tied_gpt
from utils.planner.published import model_named
from utils.planner.search import search

FOLDER = ROOT / "pictures"
UNIT = "01_collectives"
MOST_FRAMES, FRAME_MS, CLASS = 60, 150, 10


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


def player(path: Path) -> None:
    """The reference ring all-reduce on four ranks, moment by moment, as widgets.trace_player plays it."""
    ring = functions_of("solutions", UNIT)["ring_all_reduce"]
    moments = Moments(run_ranks(lambda: (ring(torch.ones(1 << 22), dist.group.WORLD), None)[1], 4).trace)
    shown = range(0, len(moments.times_s), -(-len(moments.times_s) // MOST_FRAMES))
    frames = [Image.open(io.BytesIO(moments.picture(number).png)).convert("RGB") for number in shown]
    frames = [frame.resize((frame.width // 2, frame.height // 2)).quantize(32, dither=Image.Dither.NONE) for frame in frames]
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=FRAME_MS, loop=0, optimize=True)


def a_thousand_devices(path: Path) -> None:
    """One step of unit 09's data × pipeline × tensor parallel trainer on 1,024 simulated H100s: a replica's four stages."""
    solved = functions_of("solutions", "09_putting_together")
    make_mesh, trainer_of = solved["make_mesh"], solved["MeshTrainer"]

    def step() -> None:
        mesh = make_mesh({"dp": 32, "pp": 4, "tp": 8})
        stage = MeshStage(tied_gpt(length=2048, dim=4096, n_layers=8, n_heads=32).bfloat16(), mesh["pp"], mesh["tp"])
        trainer = trainer_of(stage, torch.optim.SGD(stage.parameters(), lr=0.1), 8, mesh, max_norm=1.0)
        tokens = torch.zeros(32 * 8, 2048, dtype=torch.long)
        trainer.step(tokens, tokens)

    run, stages = simulate_ranks(step, 1024, "H100"), range(0, 32, 8)
    path.write_bytes(run.trace_of(stages).timeline(stages).png)


def planned_times(path: Path) -> None:
    """Where the time of a step of GPT-3 175B goes on 1,024 A100s, for the best layouts of the search."""
    plans = search(model_named("GPT-3 175B"), "A100", devices=1024, global_batch=1536).plans[:5]
    path.write_bytes(plan_time_figure({str(plan.layout): plan for plan in plans}).png)


def report_of_a_class(path: Path) -> None:
    """The instructor's page of a class in which everybody got some exercises of unit 04 wrong, as students do."""
    unit, chosen, wrong_codes = "04_zero2", random.Random(0), defaultdict(list)
    for answer in answers(unit):
        wrong_codes[answer["exercise"]] += [answer["code"]] if answer["kind"] == "wrong" else []
    with tempfile.TemporaryDirectory() as folder, page() as tab:
        course = Course(Path(folder), unit)
        for student in range(CLASS):
            wrong = {name: chosen.choice(wrong_codes[name]) for name in chosen.sample(sorted(wrong_codes), student % 4)}
            course.submit(f"student_{student}", lambda notebook, wrong=wrong: _answered(notebook, wrong))
        course.grader("autograde", unit)
        course.grader("report", unit)
        tab.set_viewport_size({"width": 1100, "height": 1050})
        tab.goto((course.root / "reports" / unit / "report.html").as_uri())
        tab.screenshot(path=path)
    _smaller(path)


def _answered(notebook: NotebookNode, codes: Mapping[str, str]) -> None:
    for name, code in codes.items():
        solution_cell(notebook, name).source = code


def _smaller(path: Path) -> None:
    Image.open(path).convert("RGB").quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)


def front_of_the_site(path: Path) -> None:
    """The first page of `make site`, without solutions."""
    with tempfile.TemporaryDirectory() as folder, page() as tab:
        build(Path(folder), UNITS, solved=False)
        tab.set_viewport_size({"width": 1200, "height": 820})
        tab.goto((Path(folder) / "index.html").as_uri())
        tab.screenshot(path=path)
    _smaller(path)


PICTURES = {"ring_timeline.png": ring_timeline, "answer.png": answer_in_jupyterlab, "player.gif": player,
            "thousand.png": a_thousand_devices, "planner.png": planned_times, "report.png": report_of_a_class,
            "site.png": front_of_the_site}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or PICTURES:
        PICTURES[name](FOLDER / name)


if __name__ == "__main__":
    main()
