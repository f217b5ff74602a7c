"""A picture of each technique, in the order of the course."""

from collections.abc import Iterator

from grader.exercises.shared.meshes import lines_of
from utils import figures
from utils.figures import Picture
from utils.schedules import parse_schedule


def pictures() -> Iterator[tuple[str, Picture]]:
    """(what it shows, the picture)"""
    yield "Broadcast along a tree", figures.tree_figure(8)
    yield "Ring reduce-scatter", figures.ring_filmstrip(4, "reduce_scatter")
    yield "Ring all-gather", figures.ring_filmstrip(4, "all_gather")
    yield "All-to-all", figures.collective_picture("all_to_all")
    yield "Data parallel", figures.data_parallel_figure()
    yield "ZeRO-1: a step", figures.zero1_step_figure(4)
    yield "ZeRO-2: gradients in shards", figures.gradients_figure()
    yield "ZeRO-3: gather, compute, free", figures.gather_free_figure()
    yield "ZeRO-3: prefetching", figures.prefetch_figure()
    yield "Tensor parallel: an MLP", figures.split_figure(("outputs", "inputs"))
    by_heads = figures.split_figure(("outputs", "inputs"), names=("W_q W_k W_v", "attention", "W_out"))
    yield "Tensor parallel: attention by heads", by_heads
    yield "Pipeline parallel", figures.stages_figure([2, 2, 2, 2])
    yield "1F1B", figures.schedule_table(parse_schedule("F0 F1 F2 B0 F3 B1 B2 B3", "F0 F1 B0 F2 B1 F3 B2 B3",
                                                         "F0 B0 F1 B1 F2 B2 F3 B3"))
    yield "Interleaved stages", figures.interleaved_figure()
    yield "Sequence parallel: the two pairs", figures.conjugates_figure()
    yield "Recomputation", figures.recompute_figure()
    yield "Ring attention", figures.ring_attention_figure()
    yield "Ring attention under a causal mask", figures.causal_work_figure()
    yield "A mesh of 2 × 2 × 2 ranks", figures.mesh_figure(lines_of({"dp": 2, "pp": 2, "tp": 2}))
