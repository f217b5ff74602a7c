"""Unit 02: data parallel."""

ORDER = (
    "shard_batch", "broadcast_model", "data_parallel_step",
    "average_gradients", "make_buckets", "reduce_when_ready",
    "DataParallel", "step_time", "fewest_tokens", "training_bytes",
)
