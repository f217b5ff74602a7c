"""The figures: their data is right, they render without warnings, and no two texts overlap."""

import contextlib
import io
import itertools
import pkgutil
import random
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser

import matplotlib
import numpy as np
import pytest
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from PIL import Image

from grader.exercises.shared.meshes import lines_of
from utils import figures, run_ranks
from utils.costs.formulas import bytes_sent_per_rank, ring_time_s
from utils.costs.tables import read_table, table_names
from utils.figures import Column, Table, collective_picture, human_bytes
from utils.figures.calculators import first_stage_figure
from utils.figures.collectives import COLLECTIVES
from utils.figures.hardware import link_speeds
from utils.figures.lanes import blocked_bars, free_parts, lanes_of, shares, union
from utils.figures.orders import order_drawn
from utils.figures.ring import PHASES, ring_start, ring_steps
from utils.figures.timeline import _begun_after, _named, _widened
from utils.figures.timeline_layout import call_texts, rows_of
from utils.figures.tree import tree_rounds
from utils.figures.widgets import collective_browser, cost_calculator, ring_stepper
from utils.planner.layout import Layout
from utils.planner.plan import plan
from utils.planner.published import model_named
from utils.planner.scaling import scaling
from utils.schedules.schedule import Step, parse_schedule, shape_of
from utils.simulation.clusters import cluster_named
from utils.trace.memory import CATEGORIES
from utils.trace.trace import Call, Span, Trace

KIB, MIB = 2**10, 2**20
SIZES = range(2, 9)

# ── pictures to look at ──


def call(rank, number, op="all_reduce", start=0.0, wait=None, blocked=0.0, waiting=0.0, end=None, peer=None,
         is_async=False, size=MIB, n_ranks=4):
    formula = size if op == "send" else 0 if op in ("recv", "barrier") else bytes_sent_per_rank(op, size, n_ranks)
    return Call(rank, number, op, "world", tuple(range(n_ranks)), peer, None, None, "float32", (size // 4,), size,
                size, formula, is_async, start, end, wait, blocked, waiting, None)


def training(n_ranks=4, n_steps=2) -> Trace:
    """Forward, backward with two asynchronous calls in flight, a step; rank r is a little slower than rank r − 1."""
    calls, spans = [], []
    for rank in range(n_ranks):
        for step in range(n_steps):
            begin, late = step * 0.1, 0.01 * rank / n_ranks
            spans += [Span(rank, "forward", begin, begin + 0.03 + late),
                      Span(rank, "backward", begin + 0.03 + late, begin + 0.06 + late),
                      Span(rank, "gradients ready", begin + 0.06 + late, begin + 0.06 + late),
                      Span(rank, f"step {step}", begin + 0.09, begin + 0.098)]
            for i in range(2):
                start, wait = begin + 0.04 + 0.01 * i, begin + 0.06 + late + 0.015 * i
                calls.append(call(rank, 2 * step + i, start=start, wait=wait, blocked=0.012, waiting=0.005,
                                  end=wait + 0.012, is_async=True, n_ranks=n_ranks))
    return Trace(n_ranks, tuple(calls), tuple(spans), duration_s=0.1 * n_steps)


def after_a_barrier() -> Trace:
    """A barrier that rank 1 leaves first, then forward, backward and an all-reduce on each rank."""
    calls, spans = [], []
    for rank, left in enumerate((0.052, 0.05)):
        calls += [call(rank, 0, "barrier", 0.0, 0.0, left, 0.04, left), call(rank, 1, start=0.09, wait=0.09, blocked=0.01,
                                                                             end=0.1)]
        spans += [Span(rank, "forward", left, left + 0.01), Span(rank, "backward", left + 0.01, 0.09)]
    return Trace(2, tuple(calls), tuple(spans), duration_s=0.1)


def pipeline() -> Trace:
    """Two ranks: sends, receives, and a wire that was counted."""
    calls = [call(0, i, "send", 0.02 * i, 0.02 * i + 0.001, 0.008, 0.004, 0.02 * i + 0.009, 1, True) for i in range(3)]
    calls += [call(1, i, "recv", 0.02 * i, 0.02 * i + 0.001, 0.012, 0.007, 0.02 * i + 0.013, 0, True) for i in range(3)]
    return Trace(2, tuple(calls), wire_bytes=[[0, 3 * MIB + 800], [576, 0]], duration_s=0.07)


def in_flight(n_calls: int) -> Trace:
    """On each of two ranks, calls that begin one after another and end together."""
    calls = [call(rank, i, start=0.002 * i, wait=0.05 + 5e-4 * i, blocked=4e-4, end=0.06, is_async=True)
             for rank in range(2) for i in range(n_calls)]
    return Trace(2, tuple(calls), (), duration_s=0.06)


def stuck() -> Trace:
    """Rank 0 waits for ever; rank 1 has returned."""
    return Trace(2, (call(0, 0, start=0.01, wait=0.012), call(1, 0, "send", 0.0, 0.0, 0.005, 0.0, 0.005, 0)),
                 duration_s=0.02)


def busy(n_ranks=4, n_calls=800) -> Trace:
    calls = [call(rank, i, start=i * 1e-3, wait=i * 1e-3, blocked=6e-4, waiting=rank * 1e-4, end=i * 1e-3 + 6e-4)
             for rank in range(n_ranks) for i in range(n_calls)]
    return Trace(n_ranks, tuple(calls), duration_s=n_calls * 1e-3)


def random_matrix(n_ranks):
    source = random.Random(n_ranks)
    return [[0 if i == j else source.choice([0, 576, 40 * KIB, 3 * MIB, 990 * MIB]) for j in range(n_ranks)]
            for i in range(n_ranks)]


def bandwidths():
    return [{"series": f"{op} on 4 ranks", "bytes": 2**k, "algbw_GBps": speed * k, "busbw_GBps": 1.5 * speed * k}
            for op, speed in [("all_reduce", 1.0), ("reduce_scatter", 1.3), ("ring", 0.6)] for k in range(12, 27)]


def model_times(n_points=8):
    sizes = [2**k for k in range(12, 12 + 2 * n_points, 2)]
    return sizes, [ring_time_s("all_reduce", size, 4, 40e-6, 1e-9) for size in sizes]


MEMORY = [(f"ZeRO-{stage}", dict(zip(CATEGORIES, (15e9, 15e9, 9e10, 8e9 / (stage + 1)), strict=True)))
          for stage in range(4)]

GPT_175B = model_named("GPT 175B")
PLANS = {name: plan(GPT_175B, layout, "A100", 1536) for name, layout in {
    "TP 8 × PP 8": Layout(16, 8, 8, zero=1, sequence_parallel=True, schedule="interleaved", chunks=6),
    "TP 4 × PP 8 × CP 2": Layout(16, 4, 8, 2, zero=1, sequence_parallel=True, recompute="selective"),
    "TP 2 × ZeRO-3": Layout(512, 2, zero=3, recompute="full")}.items()}

PICTURES = {
    "timeline": lambda: figures.timeline_figure(training()),
    "timeline of 1 rank": lambda: figures.timeline_figure(training(1)),
    "timeline of 16 ranks": lambda: figures.timeline_figure(training(16, 4)),
    "timeline of 64 ranks": lambda: figures.timeline_figure(training(64)),
    "timeline of some ranks": lambda: figures.timeline_figure(training(64), range(0, 64, 16)),
    "timeline after a barrier": lambda: figures.timeline_figure(after_a_barrier(), after="barrier"),
    "timeline with names": lambda: figures.timeline_figure(training(), [0], names={"all_reduce": ["r1"]}, lasts_s=1.0),
    "timeline of a pipeline": lambda: figures.timeline_figure(pipeline()),
    "timeline of a deadlock": lambda: figures.timeline_figure(stuck()),
    "timeline of 3200 calls": lambda: figures.timeline_figure(busy()),
    "timeline of nothing": lambda: figures.timeline_figure(Trace(3)),
    "traffic": lambda: figures.traffic_figure(pipeline()),
    "traffic without sends": lambda: figures.traffic_figure(training()),
    **{f"matrix of {n}": (lambda n=n: figures.matrix_figure(random_matrix(n), "bytes")) for n in (1, 2, 4, 8, 16, 40)},
    **{f"{op} on {n}": (lambda op=op, n=n: collective_picture(op, n)) for op in COLLECTIVES for n in (2, 4, 8)},
    **{f"{n} processes": (lambda n=n: figures.ranks_figure(n)) for n in (2, 4, 6)},
    **{f"gradients of {weights} weights on {n}": (lambda weights=weights, n=n: figures.gradients_figure(weights, n))
       for weights, n in ((2, 2), (4, 4), (3, 8))},
    **{f"packed row of {n}": (lambda n=n: figures.packed_row_figure(n)) for n in (2, 4)},
    "before and after": lambda: figures.before_after("shift", [["a"], ["b"]], [["b"], ["a"]]),
    **{f"ring of {n}": (lambda n=n: figures.ring_figure(n, n - 2, "reduce_scatter")) for n in SIZES},
    "ring all-gather": lambda: figures.ring_figure(4, 0, "all_gather"),
    **{f"filmstrip of {n}": (lambda n=n: figures.ring_filmstrip(n, "reduce_scatter")) for n in SIZES},
    "filmstrip all-gather": lambda: figures.ring_filmstrip(4, "all_gather"),
    **{f"tree of {n}": (lambda n=n: figures.tree_figure(n)) for n in (2, 3, 8, 16, 32)},
    "broadcast rounds": figures.broadcast_rounds_figure,
    "ladder": figures.ladder_figure,
    "node": figures.node_figure,
    "torus": figures.torus_figure,
    "alpha-beta": lambda: figures.alpha_beta_figure(*model_times(), 40e-6, 1e-9, 4, held_out=(2**28, 0.4)),
    "alpha-beta without held-out": lambda: figures.alpha_beta_figure(*model_times(3), 40e-6, 1e-9, 4),
    "bandwidth": lambda: figures.bandwidth_figure(bandwidths(), "this machine"),
    "published all-reduce": figures.published_all_reduce_figure,
    "ring or tree": lambda: figures.ring_or_tree_figure(MIB, 64, 5e-6, 1e-10),
    "schedule": lambda: figures.schedule_table(parse_schedule("F0 F1 B0 B1", "F0 B0 F1 B1"), "1F1B"),
    "schedule on 8 ranks": lambda: figures.schedule_grid(
        {Step("F", micro, rank): (rank + micro, rank + micro + 1.0) for micro in range(9) for rank in range(8)}, 8),
    **{f"orders {' and '.join(names)}": (lambda names=names: figures.orders_figure(*names))
       for names in (("GPipe", "1F1B"), ("1F1B", "interleaved", "ZB-H1"))},
    "schedules, planned and measured": lambda: figures.schedule_grids(
        {"planned": {Step("F", 0, 0): (0.0, 1.0)}, "measured": {Step("F", 0, 0): (0.0, 1.5)}}, 1, "seconds"),
    "memory over a step": lambda: figures.memory_curve(
        {"whole": [4, 4, 6, 8], "sharded": [1, 2, 3, 2]}, "layers", backward_from=2),
    "memory": lambda: figures.memory_bars(MEMORY, limit_bytes=80e9, title="7.5B parameters", base=1000),
    **{f"{' and '.join(cuts)} cut among {n}": (lambda cuts=cuts, n=n: figures.split_figure(cuts, n))
       for cuts in (("outputs",), ("inputs",), ("outputs", "inputs")) for n in (2, 3, 6)},
    **{f"stages of {sizes}": (lambda sizes=sizes: figures.stages_figure(sizes))
       for sizes in ([2, 2, 2, 2], [3, 1], [7, 7, 6, 6])},
    **{f"mesh {shape}": (lambda shape=shape: figures.mesh_figure(lines_of(dict(zip("abc", shape, strict=True)))))
       for shape in ((2, 2, 2), (4, 2, 2), (1, 3, 1))},
    **{f"mesh as a box, rank {rank}": (lambda rank=rank: figures.mesh_box_figure(
        lines_of({"dp": 2, "pp": 2, "tp": 2}), rank)) for rank in range(8)},
    "mesh in nodes": lambda: figures.mesh_figure(lines_of({"dp": 2, "pp": 4, "tp": 2}), per_node=8),
    "a layer of experts": lambda: figures.expert_layer_figure(),
    "a layer of experts, all on one": lambda: figures.expert_layer_figure((2, 2, 2, 2)),
    "two matrices": lambda: figures.matrices_figure({"even": [[128 * KIB] * 4] * 4, "uneven": [[KIB, 0, 900 * KIB, 3]] * 4}),
    "two matrices of rows": lambda: figures.matrices_figure({"a": [[250] * 4] * 4, "b": [[9, 0, 1200, 3]] * 4}, of="rows"),
    **{f"a step of causal attention, {n} ranks": (lambda n=n: figures.causal_step_figure(n, n > 2, n - 1))
       for n in (2, 4, 8)},
    "routing": lambda: figures.routing_figure([[0, 1]] * 32, [[token < 12, token < 3] for token in range(32)], 12, 8, 4, 64),
    "departures": lambda: figures.departures_figure(
        [{"loss": (0.0, 0.1), "gradient of a.long.name": (3.0, float("inf"))}, {"loss": (None, 1e-12), "b": (0.0, 1e-4)}],
        {(0, "gradient of a.long.name", 0): 4.0, (0, "loss", 1): None}),
    "attention by heads": lambda: figures.split_figure(("outputs", "inputs"), names=("W_q W_k W_v", "attention", "W_out"),
                                                       roles=True),
    "two layers backward": lambda: figures.split_figure(("outputs", "inputs"), 4, roles=True, backward=True),
    "outputs gathered": lambda: figures.split_figure(("outputs",), 4, gathered=True),
    **{f"gather and free, {n} ranks, {layers} layers": (lambda n=n, layers=layers: figures.gather_free_figure(n, layers))
       for n, layers in ((2, 2), (3, 3), (4, 3))},
    "hybrid sharding": figures.hybrid_figure,
    "hybrid sharding, 3 nodes of 2": lambda: figures.hybrid_figure(3, 2),
    **{f"prefetching {n} layers": (lambda n=n: figures.prefetch_figure(n)) for n in (2, 4, 6)},
    **{f"backward overlapped, {n} layers": (lambda n=n: figures.backward_overlap_figure(n)) for n in (2, 3, 4)},
    **{f"{chunks} chunks on {n} ranks": (lambda n=n, chunks=chunks: figures.interleaved_figure(n, chunks))
       for n, chunks in ((2, 2), (4, 2), (4, 4))},
    **{f"{n} blocks recomputed": (lambda n=n: figures.recompute_figure(n)) for n in (1, 3)},
    **{f"ring attention on {n}": (lambda n=n: figures.ring_attention_figure(n)) for n in (2, 4, 6)},
    **{f"conjugates on {n}": (lambda n=n: figures.conjugates_figure(n)) for n in (2, 4, 6)},
    "parts of a block": figures.block_parts_figure,
    "a first stage": lambda: first_stage_figure(lambda *sizes: 4e8 if sizes[-1] == "none" else 2e8, "175B"),
    "sent by ranks": lambda: figures.sent_by_ranks_figure(
        {"many heads": {"ring": {2: 4.0, 4: 5.0, 8: 5.5}, "all-to-all": {2: 2.0, 4: 1.5, 8: 0.9}},
         "few heads": {"ring": {2: 0.5, 4: 0.6}}}, {"many heads": {"ring": {2: 4.0}}}),
    "throughput": lambda: figures.throughput_figure(
        {f"{p} stages": {m: p * m / (m + p - 1) for m in range(1, 99)} for p in (4, 8)}, {8: 2.8},
        {"4 stages": 4, "8 stages": 8}),
    "drift": lambda: figures.drift_figure({"summed": [5.0, 4.0], "forgotten": [5.0, 4.1]},
                                          {"summed": [0.0, 0.0], "forgotten": [0.0, 0.1]}),
    "distances": lambda: figures.distance_curves({"by the norm": [0.0, 5e-7, 2e-7], "by its own": [0.0, 1e-3, 6e-3]}, "one"),
    "memory above a start": lambda: figures.memory_curve(
        {"whole": [0, 4 * MIB], "sharded": [0, MIB, MIB]}, "weights", above="the start of backward"),
    **{f"a step of ZeRO-1 on {n}": (lambda n=n: figures.zero1_step_figure(n)) for n in (2, 4, 8)},
    "layer times": lambda: figures.layer_times([2, 4, 8, 16], [1e8] * 4, [0.04, 0.02, 0.01, 0.005], {
        "NVLink": 300.0, "InfiniBand": 25.0}, node=8, inside=["NVLink"], more_s={"full nodes": {8: 3e-4, 16: 6e-4}}),
    **{f"data parallel on {n}": (lambda n=n: figures.data_parallel_figure(n)) for n in (2, 3, 6)},
    "messages in time": lambda: figures.messages_figure(),
    "speed-up": lambda: figures.speed_up_figure([1, 2, 4], {"overlapped": [1, 2, 3.1], "apart": [1, 1.5, 2.0]}),
    "critical batch": lambda: figures.critical_batch_figure(),
    "timeline of 15 in flight": lambda: figures.timeline_figure(in_flight(15)),
    "tokens a rank": lambda: figures.tokens_figure([2**k for k in range(17)], {
        "NVLink": [min(1.0, 2**k / 900) for k in range(17)], "InfiniBand": [min(1.0, 2**k / 8000) for k in range(17)]},
        {"NVLink": 900, "InfiniBand": 8000}),
    "dropped": lambda: figures.dropped_figure([1, 1.5, 2], {"random": [2.0, 0.0, 0.0], "favourites": [33.0, 15.0, 4.0]}),
    "all-to-all beside all-reduce": lambda: figures.ratio_figure([8, 64], {"torus": [0.5, 2.0], "H100": [0.5, 0.48]}),
    "buckets": lambda: figures.bucket_figure([2.0**k for k in range(12, 24, 2)], {
        "measured": [9, 5, 4, 4.4, 6, 8], "by formula": [8, 5, 4, 4, 6.5, 8]}, [64, 32, 16, 8, 4, 1]),
    "memory of plans": lambda: figures.plan_memory_figure(PLANS),
    "time of plans": lambda: figures.plan_time_figure(PLANS),
    "time of plans, with ends": lambda: figures.plan_time_figure(PLANS, "Two", dict.fromkeys(PLANS, "fits")),
    "time of a plan": lambda: figures.plan_time_figure({"one": PLANS["TP 8 × PP 8"]}, "A step"),
    "scaling": lambda: figures.scaling_figure(scaling(GPT_175B, cluster_named("A100"), 1536), "GPT 175B"),
    "scaling, its ends named": lambda: figures.scaling_figure(
        scaling(GPT_175B, cluster_named("A100"), 1536), "GPT 175B", ends={"TP": "TP: heads end", "DP": "DP: sequences end"}),
    **{f"ports of {ranks}": (lambda ranks=ranks: figures.ports_figure(ranks)) for ranks in ((1, 2, 8), (4,))},
    "memory in KiB": lambda: figures.memory_bars(
        [("ZeRO-1", {"parameters": 1_205_862}), ("ZeRO-2", {"parameters": 1_226_342})], in_kib=True),
    "memory of nothing": lambda: figures.memory_bars([("rank 0", {"parameters": 0})]),
}


class Attributes(HTMLParser):
    """The attributes of each tag of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))


@contextlib.contextmanager
def noting_texts(monkeypatch) -> Iterator[dict[int, tuple[str, Bbox]]]:
    """Of each text that is drawn in it, the words and the box, in the pixels of the figure's own size."""
    drawn, draw = {}, Text.draw  # a layout draws everything twice: the second time counts

    def noting(self, renderer, *args, **kwargs):
        if self.get_visible() and self.get_text().strip():
            box = Text.get_window_extent(self, renderer)
            drawn[id(self)] = self.get_text(), Bbox(box.get_points() * 100 / self.figure.dpi)
        return draw(self, renderer, *args, **kwargs)

    monkeypatch.setattr(Text, "draw", noting)
    yield drawn
    monkeypatch.undo()


def overlap(one, other, slack=1.0) -> bool:
    return (min(one.x1, other.x1) - max(one.x0, other.x0) > slack
            and min(one.y1, other.y1) - max(one.y0, other.y0) > slack)


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_renders_without_warnings_and_its_texts_stand_apart(name, monkeypatch):
    with warnings.catch_warnings(), noting_texts(monkeypatch) as drawn:
        warnings.simplefilter("error")
        picture = PICTURES[name]()
        image = Image.open(io.BytesIO(picture.png))
    width, height = image.size
    assert width <= 1800 and 100 < height < 5000 and len(picture.png) < 300_000
    assert len(picture.words) > 20
    texts = list(drawn.values())
    frame = picture.figure.bbox
    outside = [text for text, b in texts if b.x0 < 0 or b.y0 < 0 or b.x1 > frame.x1 + 1 or b.y1 > frame.y1 + 1]
    assert not outside, f"cut off: {outside}"
    clashes = [(a, b) for i, (a, box) in enumerate(texts) for b, other in texts[i + 1:] if overlap(box, other)]
    assert not clashes, f"overlap: {clashes[:5]}"


# ── Picture ──


def test_ports_are_of_one_to_three_numbers_that_divide_a_node():
    shared = "uses as many ports, 2 × 25 GB/s = 50 GB/s: two rings"
    assert f"tp 4 it has 2 of the node's GPUs and {shared}" in figures.ports_figure().words
    assert "rings" not in figures.ports_figure((1, 8)).words
    for wrong in ((), (3,), (1, 2, 4, 8)):
        with pytest.raises(ValueError, match="one to three numbers of ranks"):
            figures.ports_figure(wrong)


def test_figures_are_loaded_when_they_are_used():
    code = ("import sys; from utils import figures, widgets; assert 'matplotlib' not in sys.modules; "
            "print(figures.ring_figure.__name__, widgets.ring_stepper.__name__)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["ring_figure", "ring_stepper"]
    with pytest.raises(AttributeError, match=r"no 'ring_figur'; it has .* ring_figure"):
        figures.ring_figur  # noqa: B018


def test_no_module_of_figures_has_the_name_of_a_figure():
    """Else the module would hide it as soon as something imports it."""
    modules = {module.name for module in pkgutil.iter_modules(figures.__path__)}
    assert not modules & set(figures.__all__)
    assert all(callable(getattr(figures, name)) for name in figures.__all__)


def test_a_picture_shows_itself_without_pyplot():
    picture = collective_picture("broadcast")
    png, facts = picture._repr_png_()
    assert png.startswith(b"\x89PNG") and facts["width"] == 900
    (_, image), (style, _) = Attributes(picture._repr_html_()).tags
    assert image["alt"] == picture.words == repr(picture)
    assert "background:white" in image["style"]
    assert style == "style" and [tag for tag, _ in Attributes(figures.figure_html(picture)).tags] == ["div", "img", "style"]


def test_a_dark_style_of_the_notebook_does_not_leak_in():
    plain = collective_picture("all_gather").png
    with matplotlib.rc_context({"figure.facecolor": "black", "text.color": "white", "font.size": 30}):
        assert collective_picture("all_gather").png == plain


@pytest.mark.parametrize("n_steps", [4, 8, 24, 60])
def test_no_two_loss_curves_are_marked_at_the_same_step(n_steps):
    losses = list(range(n_steps, 0, -1))
    axes = figures.loss_curves({"one process": losses, "2 ranks": losses, "4 ranks": losses}).figure.axes[0]
    of_2, of_4 = (set(line.get_xdata()) for line in axes.lines[1:])
    assert of_2 and of_4 and not of_2 & of_4


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_a_picture_saves_itself(tmp_path, suffix):
    path = collective_picture("reduce").save(tmp_path / f"reduce.{suffix}")
    assert path.stat().st_size > 1000


@pytest.mark.parametrize(("size", "base", "text"), [
    (0, 1024, "0 B"), (1023, 1024, "1023 B"), (1024, 1024, "1 KiB"), (1536, 1024, "1.5 KiB"), (MIB, 1024, "1 MiB"),
    (150 * MIB, 1024, "150 MiB"), (80e9, 1000, "80 GB"), (80e9, 1024, "74.5 GiB"), (None, 1024, "–")])
def test_human_bytes(size, base, text):
    assert human_bytes(size, base) == text


# ── the orders of a pipeline ──


@pytest.mark.parametrize(("name", "units", "in_flight"), [
    ("GPipe", 33, [8, 8, 8, 8]), ("1F1B", 33, [4, 3, 2, 1]), ("interleaved", 28.5, [11, 9, 7, 5]), ("ZB-H1", 27, [4] * 4)])
def test_an_order_that_is_drawn_can_run_and_takes_as_long_as_it_says(name, units, in_flight):
    schedule, times = order_drawn(name)
    shape = shape_of(schedule)
    assert len(times) == len(set(times)) == shape.n_stages * shape.n_micro * len(shape.kinds)
    for steps in schedule:
        assert all(times[one][1] <= times[other][0] for one, other in itertools.pairwise(steps))
    for step, (start, _) in times.items():
        needs = {"F": [("F", -1)], "B": [("B", 1), ("F", 0)], "I": [("I", 1), ("F", 0)], "W": [("I", 0)]}[step.kind]
        needed = [Step(kind, step.micro, step.stage + way) for kind, way in needs if 0 <= step.stage + way < shape.n_stages]
        assert all(times[need][1] <= start for need in needed), step
    assert max(end for _, end in times.values()) == units
    counts = [itertools.accumulate({"F": 1, "I": 0}.get(step.kind, -1) for step in steps) for steps in schedule]
    assert [max(count) for count in counts] == in_flight
    with pytest.raises(ValueError, match="takes some of GPipe"):
        figures.orders_figure(name, "DualPipe")


# ── lanes of the timeline ──


def test_a_timeline_after_a_call_begins_where_the_first_rank_leaves_it():
    later = _begun_after(after_a_barrier(), "barrier")
    assert [c.op for c in later.calls] == ["all_reduce"] * 2 and later.duration_s == pytest.approx(0.05)
    assert min(s.start_s for s in later.spans) == pytest.approx(0.0)
    assert [b.start_s for b in lanes_of(later, 0, 0.05).blocked] == [pytest.approx(0.04)]
    figures.timeline_figure(training(), after="barrier")  # without such a call: all of it



def test_calls_in_flight_take_the_names_that_are_given():
    flights = _named(lanes_of(training(), 0, 1.0), {"all_reduce": ["r1", "r2"]}).flights
    labels = [bar.labels[0] for _, bar in sorted(flights, key=lambda flight: flight[1].start_s)]
    assert labels[:2] == ["r1", "r2"] and not {"r1", "r2"} & {*labels[2:]}


def test_blocked_time_is_split_into_waiting_and_communicating():
    bars = blocked_bars(call(0, 0, wait=1.0, blocked=0.5, waiting=0.2, end=1.5), right_s=2.0)
    assert [(b.kind, b.start_s, b.end_s) for b in bars] == [("waiting", 1.0, 1.2), ("communicating", 1.2, 1.5)]
    assert [b.labels for b in bars] == [(), ("all_reduce",)]
    waits = blocked_bars(call(0, 0, wait=1.0, blocked=0.5, waiting=0.4, end=1.5), right_s=2.0)
    assert [b.labels for b in waits] == [("all_reduce",), ()]  # it mostly waits: the name stands there


def test_a_blocking_message_is_drawn_from_its_start_not_from_its_wait():
    def drawn(waiting, is_async=False):
        message = call(0, 0, "send", 0.9, 1.0, 0.5, waiting, 1.5, 1, is_async)
        return [(b.kind, b.start_s, b.end_s) for b in blocked_bars(message, right_s=2.0)]

    assert drawn(0.0) == [("communicating", 0.9, 1.5)]
    assert drawn(0.2) == [("waiting", 0.9, 1.2), ("communicating", 1.2, 1.5)]
    assert drawn(0.0, is_async=True) == [("communicating", 1.0, 1.5)]


def test_the_name_of_a_waiting_call_moves_to_its_communicating_part_where_it_fits():
    blocked = blocked_bars(call(0, 0, wait=1.0, blocked=0.5, waiting=0.4, end=1.5), right_s=2.0)
    rows = rows_of([lanes_of(training(), 0, 1.0)], 1.0)
    assert [bar.labels for bar in call_texts(replace(rows, inches_per_s=20.0), blocked)] == [(), ("all_reduce",)]
    assert call_texts(replace(rows, inches_per_s=2.0), blocked) == blocked


def test_a_short_call_is_drawn_wide_enough_to_be_seen_but_covers_no_other_bar():
    sends = [call(0, i, "send", start, start, 0.001, 0.0, start + 0.001, 1) for i, start in enumerate((0.1, 0.2, 0.21))]
    lanes = lanes_of(Trace(2, tuple(sends), (), duration_s=1.0), 0, 1.0)
    assert [bar.end_s for bar in _widened(lanes, 0.05)] == pytest.approx([0.15, 0.21, 0.26])
    assert _widened(lanes, 0.0005) == lanes.blocked


def test_the_legend_of_a_timeline_has_spans_of_one_kind():
    def keys(trace) -> list[str]:
        return [text.get_text() for legend in figures.timeline_figure(trace).figure.legends for text in legend.get_texts()]

    named = replace(stuck(), spans=(Span(0, "busy", 0.0, stuck().duration_s / 2),))
    assert "span" in keys(named) and "span" not in keys(stuck())
    passes = replace(busy(2, 1), duration_s=0.02, spans=(Span(1, "F0", 0.002, 0.01), Span(1, "B0", 0.01, 0.02)))
    assert {"F forward", "B backward"} <= set(keys(passes))


def test_an_unfinished_call_is_stuck_to_the_right_edge():
    assert [(b.kind, b.end_s) for b in blocked_bars(call(0, 0, wait=1.0), right_s=2.0)] == [("stuck", 2.0)]
    assert not blocked_bars(call(0, 0), right_s=2.0)


def test_a_blocking_send_is_not_in_flight_but_an_asynchronous_one_is():
    blocking = call(0, 0, "send", 0.0, 0.02, 0.01, 0.0, 0.01, 1)
    asynchronous = call(0, 1, "send", 0.02, 0.03, 0.001, 0.0, 0.031, 1, is_async=True)
    trace = Trace(2, (blocking, asynchronous), (), duration_s=0.04)
    assert [bar.start_s for _, bar in lanes_of(trace, 0, 0.04).flights] == [0.02]


def test_calls_in_flight_together_lie_in_different_sublanes():
    flights = lanes_of(training(1, 1), 0, 0.1).flights
    assert [lane for lane, _ in flights] == [0, 1]


def test_every_call_in_flight_lies_alone_and_those_without_a_lane_are_counted():
    assert [lane for lane, _ in lanes_of(in_flight(15), 0, 0.06).flights] == [*range(15)]
    axes, = figures.timeline_figure(in_flight(15)).figure.axes
    assert [text.get_text() for text in axes.texts if "more" in text.get_text()] == ["+3 more"] * 2
    axes, = figures.timeline_figure(in_flight(12)).figure.axes
    assert not [text for text in axes.texts if "more" in text.get_text()]


@pytest.mark.parametrize("seed", range(20))
def test_shares_and_free_parts_account_for_all_time(seed):
    source = np.random.default_rng(seed)
    intervals = [tuple(sorted(pair)) for pair in source.uniform(0, 1, (source.integers(1, 9), 2)).tolist()]
    covered = sum(end - start for start, end in union(intervals))
    edges = np.linspace(0, 1, 37)
    assert shares(intervals, edges).sum() / 36 == pytest.approx(covered)
    assert sum(end - start for start, end in free_parts((0.0, 1.0), intervals)) == pytest.approx(1 - covered)


# ── ring, tree, collectives: against a simulation ──


@pytest.mark.parametrize("n_ranks", range(2, 12))
def test_ring_reduce_scatter_sums_chunk_r_on_rank_r(n_ranks):
    data = np.random.default_rng(n_ranks).integers(0, 100, (n_ranks, n_ranks))  # [rank][chunk]
    held = data.copy()
    for step in ring_steps(n_ranks, "reduce_scatter"):
        sent = [held[source, chunk] for source, _, chunk in step.sends]
        for value, (_, target, chunk) in zip(sent, step.sends, strict=True):
            held[target, chunk] += value
        for rank, chunks in enumerate(step.after):
            for chunk, ranks in enumerate(chunks):
                assert held[rank, chunk] == data[sorted(ranks), chunk].sum()
    assert (held.diagonal() == data.sum(axis=0)).all()


@pytest.mark.parametrize("n_ranks", range(2, 12))
def test_ring_all_gather_sends_only_what_is_held_and_ends_complete(n_ranks):
    for step in ring_steps(n_ranks, "all_gather"):
        assert all(step.before[source][chunk] for source, _, chunk in step.sends)
    assert all(len(ranks) == n_ranks for chunks in step.after for ranks in chunks)


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("n_ranks", range(2, 12))
def test_every_step_each_rank_sends_one_chunk_to_the_next(n_ranks, phase):
    steps = ring_steps(n_ranks, phase)
    assert len(steps) == n_ranks - 1
    assert steps[0].before == ring_start(n_ranks, phase)
    for number, step in enumerate(steps):
        assert [source for source, _, _ in step.sends] == list(range(n_ranks))
        assert all(target == (source + 1) % n_ranks for source, target, _ in step.sends)
        shift = number + (phase == "reduce_scatter")
        assert [chunk for _, _, chunk in step.sends] == [(r - shift) % n_ranks for r in range(n_ranks)]


def test_all_gather_begins_where_reduce_scatter_ends():
    last = ring_steps(5, "reduce_scatter")[-1]
    owned = {(rank, chunk) for rank in range(5) for chunk in range(5) if (rank, chunk) not in last.spent}
    start = ring_start(5, "all_gather")
    assert owned == {(rank, chunk) for rank in range(5) for chunk in range(5) if start[rank][chunk]}


@pytest.mark.parametrize("n_ranks", range(1, 40))
def test_the_tree_reaches_every_rank_once_in_log2_rounds(n_ranks):
    rounds, informed = tree_rounds(n_ranks), {0}
    for sends in rounds:
        assert {source for source, _ in sends} <= informed
        assert len({source for source, _ in sends}) == len(sends)
        informed |= {target for _, target in sends}
    assert informed == set(range(n_ranks)) and sum(map(len, rounds)) == n_ranks - 1
    assert len(rounds) == int(np.ceil(np.log2(n_ranks)))


@pytest.mark.parametrize("n", [2, 3, 5])
def test_collectives_follow_from_each_other(n):
    def after(op):
        return COLLECTIVES[op].after(n)

    assert after("all_reduce") == [[label for [label] in after("reduce_scatter")]] * n
    assert np.array_equal(np.array(after("all_to_all")), np.array(COLLECTIVES["all_to_all"].before(n)).T)
    assert after("all_gather") == [after("gather")[0]] * n
    assert after("reduce")[0] == ["+".join(label for [label] in COLLECTIVES["reduce"].before(n))]
    assert [label for [label] in after("scatter")] == COLLECTIVES["scatter"].before(n)[0]


# ── tables ──


def columns_of(table: Table) -> list[list[str]]:
    lines = str(table).splitlines()
    stops = [i for i, c in enumerate(lines[1] + " ") if c == " " and (lines[1] + " ")[max(i - 1, 0)] != " "]
    starts = [0] + [stop + 2 for stop in stops[:-1]]
    return [[line.ljust(len(lines[1]))[a:b] for line in [lines[0], *lines[2:]]]
            for a, b in zip(starts, stops, strict=True)]


def test_a_table_is_aligned_and_escaped():
    table = Table([{"name": "a<b", "size": 3}, {"name": "long one", "size": 12345}], [Column("name"), Column("size")])
    names, sizes = columns_of(table)
    assert all(text == text.strip().ljust(len(text)) for text in names)
    assert all(text == text.strip().rjust(len(text)) for text in sizes)
    assert "a&lt;b" in table._repr_html_()


def test_a_table_takes_lists_and_refuses_short_ones():
    assert Table([[1, 2.5], [None, 3.0]], ["a", "b"]).cells == [["1", "2.5"], ["–", "3"]]
    with pytest.raises(ValueError, match="needs 2 values"):
        Table([[1]], ["a", "b"])


def test_bytes_table_counts_the_wire_only_where_it_was_counted():
    with_wire, without = figures.bytes_table(pipeline()), figures.bytes_table(training())
    assert "on the wire" in str(with_wire) and "wire" not in str(without)
    assert with_wire.rows[0]["ratio"] == pytest.approx(1 + 800 / (3 * MIB))
    assert with_wire.rows[1]["ratio"] is None  # rank 1 sends nothing by the formula
    assert with_wire.rows[1]["waiting"] == pytest.approx(21)


def test_published_tables_are_read_with_numbers():
    assert {"links", "superpod", "allreduce_a100_n2_n4"} <= set(table_names())
    for name in set(table_names()) - {"planned_worst"}:  # which is words
        rows = read_table(name)
        numbered = [row for row in rows if any(isinstance(value, int | float) for value in row.values())]
        assert len(numbered) >= len(rows) - (name == "real_runs")  # OLMo's report says of its layout only "FSDP"
    with pytest.raises(ValueError, match="links"):
        read_table("lynx")


def test_published_all_reduce_is_consistent_with_the_bus_factor():
    for row in read_table("allreduce_a100_n2_n4"):
        algbw_GBps = row["bytes"] / row["time_ns_out_of_place"]
        assert algbw_GBps * 2 * (row["ranks"] - 1) / row["ranks"] == pytest.approx(row["busbw_GBps"], rel=2e-3)


def test_superpods_are_compared_in_one_number_format():
    rows = figures.superpod_table().rows
    assert [row["bf16"] for row in rows] == pytest.approx([2.5, 7.9, 80, 252.8])
    assert rows[1]["times"] == pytest.approx(3.16)  # published numbers would say 6.4


def test_links_are_looked_up_by_name():
    assert link_speeds("PCIe x16") == {"gen 4": 32, "gen 5": 64}
    with pytest.raises(ValueError, match="NVLink"):
        link_speeds("telegraph")


# ── errors ──


@pytest.mark.parametrize(("draw", "message"), [
    (lambda: collective_picture("all_shuffle"), "all_to_all"),
    (lambda: collective_picture("gather", 9), "2 to 8"),
    (lambda: figures.ring_figure(4, 3, "all_gather"), "0 to 2"),
    (lambda: figures.ring_figure(9, 0, "all_gather"), "up to 8"),
    (lambda: ring_steps(1, "all_gather"), "2 ranks"),
    (lambda: ring_steps(4, "gather"), "reduce_scatter"),
    (lambda: figures.tree_figure(33), "2 to 32"),
    (lambda: figures.memory_bars([]), "one or more"),
    (lambda: figures.matrix_figure([[1, 2]], "t"), "as many columns"),
    (lambda: figures.matrices_figure({"one": [[1]]}), "two matrices"),
    (lambda: figures.mesh_box_figure({"dp": [[0, 1]]}, 0), "2 × 2 × 2"),
    (lambda: figures.expert_layer_figure((0, 4, 1, 2)), "experts 0 to 3"),
    (lambda: figures.before_after("x", [["a"]], [["a"], ["b"]]), "different|ranks"),
    (lambda: figures.prefetch_figure(1), "2 to 6"),
    (lambda: figures.backward_overlap_figure(5), "2 to 4"),
    (lambda: figures.hybrid_figure(1), "2 or 3 nodes"),
    (lambda: ring_stepper(1), "from 2"),
])
def test_errors_name_what_would_work(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()


# ── widgets ──


@pytest.mark.parametrize(("make", "n_stills"), [(ring_stepper, 2), (collective_browser, 8), (cost_calculator, 1)])
def test_a_widget_carries_a_still_picture(make, n_stills):
    data, _ = make()._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    images = [attributes for tag, attributes in Attributes(data["text/html"]).tags if tag == "img"]
    assert len(images) == n_stills and all(image["alt"] for image in images)
    assert len(data["text/plain"].splitlines()) == n_stills


def test_the_ring_stepper_walks_through_both_phases_and_follows_the_ranks():
    widget = ring_stepper(3)
    step, ranks = widget.controls
    seen = []
    for number in range(1, step.max + 1):
        step.value = number
        seen.append(Attributes(widget.view.value).tags[1][1]["alt"].split(":")[0])
    assert seen == [f"Ring {phase} of 3 ranks, step {i} of 2" for phase in PHASES for i in (1, 2)]
    ranks.value = 2
    assert (step.value, step.max) == (1, 2) and "of 2 ranks" in widget.view.value
    ranks.value = 5
    assert (step.value, step.max) == (1, 8) and "of 5 ranks" in widget.view.value


def test_the_cost_calculator_prefers_rings_for_large_arrays_and_trees_for_small_ones():
    widget = cost_calculator()
    _, size, _, _ = widget.controls
    alts = []
    for size.value in (256, 2**34):
        alts.append(next(a["alt"] for tag, a in Attributes(widget.view.value).tags if tag == "img"))
    times = [[float(part.split(" ms")[0]) for part in alt.replace("ring ", "tree ").split("tree ")[1:]] for alt in alts]
    assert times[0][0] > times[0][1] and times[1][0] < times[1][1]


# ── a real run ──


def test_a_real_trace_shows_itself():
    def work(rank, world_size):
        import torch
        import torch.distributed as dist

        x = torch.ones(1000)
        if rank == 0:
            dist.send(x, 1)
        else:
            dist.recv(x, 0)
        dist.all_reduce(x, async_op=True).wait()

    trace = run_ranks(work, 2).trace
    page = trace._repr_html_()
    assert [tag for tag, _ in Attributes(page).tags].count("img") == 2 and "<table>" in page
    assert "Rank 1: computing" in trace.timeline().words
    assert str(trace).splitlines()[2].split()[:2] == ["0", "2"]
