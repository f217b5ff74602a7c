"""Unit 02: data parallel."""

ORDER = (
    "shard_batch", "broadcast_model", "data_parallel_step",
    "average_gradients", "reduce_when_ready", "make_buckets",
    "DataParallel", "step_time", "fewest_tokens", "training_bytes",
)
