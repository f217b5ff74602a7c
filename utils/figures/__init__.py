"""Figures and tables of the course: plain functions from plain data to a Picture or a Table that shows itself.

Each is imported when it is first used: a notebook's first cell, and marking, should not wait for matplotlib.
"""

from importlib import import_module
from typing import Any

_PLACES = {
    "backward": ("gradients_figure", "packed_row_figure"),
    "bars": ("activation_bars", "memory_bars"),
    "block_parts": ("block_parts_figure",),
    "bytes_tables": ("bytes_table",),
    "collectives": ("before_after", "collective_picture"),
    "conjugates": ("conjugates_figure",),
    "costs_figures": ("alpha_beta_figure", "bandwidth_figure", "published_all_reduce_figure", "ring_or_tree_figure"),
    "curves": ("distance_curves", "drift_figure", "layer_times", "loss_curves", "memory_curve", "speed_up_figure",
               "step_memory_figure", "throughput_figure", "trade_figure"),
    "data_parallel": ("bucket_figure", "critical_batch_figure", "data_parallel_figure", "messages_figure", "tokens_figure"),
    "departures": ("departures_figure",),
    "experts": ("dropped_figure", "expert_layer_figure", "ratio_figure", "routing_figure"),
    "hardware": ("ladder_figure", "superpod_table"),
    "long_attention": ("causal_step_figure", "causal_work_figure", "sent_by_ranks_figure"),
    "machines": ("node_figure", "torus_figure"),
    "mesh": ("mesh_box_figure", "mesh_figure"),
    "orders": ("orders_figure",),
    "pipeline": ("schedule_grid", "schedule_grids", "schedule_table"),
    "planner_figures": ("plan_memory_figure", "plan_time_figure", "scaling_figure", "stage_memory_figure"),
    "ports": ("ports_figure",),
    "processes": ("ranks_figure",),
    "ring": ("ring_figure", "ring_filmstrip", "ring_steps"),
    "schematics": ("backward_overlap_figure", "interleaved_figure", "prefetch_figure", "recompute_figure",
                   "ring_attention_figure"),
    "sharded_layers": ("gather_free_figure", "hybrid_figure"),
    "splits": ("split_figure",),
    "stages": ("stages_figure",),
    "style": ("Picture", "figure_html", "human_bytes"),
    "tables": ("Column", "Table"),
    "timeline": ("timeline_figure",),
    "traffic": ("matrices_figure", "matrix_figure", "traffic_figure"),
    "tree": ("broadcast_rounds_figure", "tree_figure", "tree_rounds"),
    "zero1": ("zero1_step_figure",),
}
_PLACE_OF = {name: place for place, names in _PLACES.items() for name in names}
__all__ = list(_PLACE_OF)


def __getattr__(name: str) -> Any:
    if name not in _PLACE_OF:
        raise AttributeError(f"utils.figures has no {name!r}; it has {', '.join(sorted(__all__))}")
    value = globals()[name] = getattr(import_module(f"utils.figures.{_PLACE_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
