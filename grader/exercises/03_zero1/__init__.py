"""Unit 03: ZeRO-1, the optimizer's state in shards."""

ORDER = ("sharded_step", "FlatOptimizer", "clip_gradient_norm", "partition_tensors", "ShardedOptimizer",
         "DropInShardedOptimizer", "reshard")
