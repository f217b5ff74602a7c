"""Unit 03: ZeRO-1, the optimizer's state in shards."""

ORDER = ("shard_range", "sharded_step", "clip_gradient_norm", "zero1_bytes", "partition_tensors", "ShardedOptimizer",
         "reshard")
