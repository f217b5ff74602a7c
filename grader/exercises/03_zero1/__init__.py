"""Unit 03: ZeRO-1, the optimizer's state in shards."""

ORDER = ("shard_range", "sharded_step", "FlatOptimizer", "clip_gradient_norm", "zero1_bytes", "largest_model",
         "partition_tensors", "ShardedOptimizer", "reshard")
