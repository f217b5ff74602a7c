"""Unit 02: data parallel."""

ORDER = (
    "shard_batch", "broadcast_model", "data_parallel_step",
    "average_gradients", "make_buckets", "reduce_when_ready",
    "training_bytes", "step_time", "fewest_tokens", "DataParallel",
)
