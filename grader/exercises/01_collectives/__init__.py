"""Unit 01: collectives."""

ORDER = (
    "broadcast_naive", "broadcast_tree", "reduce",
    "ring_reduce_scatter", "ring_all_gather", "ring_all_reduce",
    "hierarchical_all_reduce", "overlapped_all_reduce",
    "ring_time", "time_collective", "fit_alpha_beta", "bandwidths", "bytes_for_share",
    "halving_doubling_all_reduce",
)
