"""Figures and tables of the course: plain functions from plain data to a Picture or a Table that shows itself."""

from utils.figures.collectives import before_after, collective_picture
from utils.figures.costs_figures import (
    alpha_beta_figure,
    bandwidth_figure,
    published_all_reduce_figure,
    ring_or_tree_figure,
)
from utils.figures.curves import layer_times, loss_curves, memory_curve, step_time_figure, trade_figure
from utils.figures.hardware import ladder_figure, superpod_table
from utils.figures.long_attention import causal_work_figure
from utils.figures.machines import node_figure, torus_figure
from utils.figures.memory_bars import activation_bars, memory_bars
from utils.figures.pipeline import schedule_grid, schedule_grids, schedule_table
from utils.figures.ring import ring_figure, ring_filmstrip, ring_steps
from utils.figures.splits import split_figure
from utils.figures.style import Picture, figure_html, human_bytes
from utils.figures.tables import Column, Table, bytes_table
from utils.figures.timeline import timeline_figure
from utils.figures.traffic import matrix_figure, traffic_figure
from utils.figures.tree import broadcast_rounds_figure, tree_figure, tree_rounds

__all__ = [
    "Column", "Picture", "Table", "activation_bars", "alpha_beta_figure", "bandwidth_figure", "before_after",
    "broadcast_rounds_figure", "bytes_table", "causal_work_figure", "collective_picture", "figure_html", "human_bytes",
    "ladder_figure", "layer_times", "loss_curves", "matrix_figure", "memory_bars", "memory_curve", "node_figure",
    "published_all_reduce_figure", "ring_figure", "ring_filmstrip", "ring_or_tree_figure", "ring_steps", "schedule_grid",
    "schedule_grids", "schedule_table", "split_figure", "step_time_figure", "superpod_table", "timeline_figure",
    "torus_figure", "trade_figure", "traffic_figure", "tree_figure", "tree_rounds",
]
