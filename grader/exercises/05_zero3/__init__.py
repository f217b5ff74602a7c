"""Unit 05: ZeRO-3 (fully sharded data parallel), the parameters in shards as well."""

ORDER = (
    "flat_shard", "ShardedLinear", "forward_prefetching", "zero_bytes", "zero3_traffic", "ShardedLayer", "GatherHooks",
    "FullyShard", "FullyShardKeepingSmall",
)
