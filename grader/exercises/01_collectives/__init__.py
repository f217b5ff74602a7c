"""Unit 01: collectives."""

ORDER = (
    "broadcast_naive", "broadcast_tree", "scatter", "gather", "reduce",
    "ring_reduce_scatter", "ring_all_gather", "ring_all_reduce", "all_to_all",
    "grid_sums", "overlapped_all_reduce",
    "ring_time", "time_collective", "fit_alpha_beta", "bandwidths", "bytes_for_share",
    "halving_doubling_all_reduce",
)
