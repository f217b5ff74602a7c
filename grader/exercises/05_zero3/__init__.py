"""Unit 05: ZeRO-3 (fully sharded data parallel), the parameters in shards as well."""

ORDER = (
    "flat_shard", "ShardedLinear", "forward_prefetching", "zero_bytes", "most_parameters", "zero_traffic", "tokens_to_hide",
    "GatheredLayer", "PrefetchedLayer", "ShardedLayer", "GatherHooks", "FullyShard", "FullyShardOddModules",
    "FullyShardKeepingSmall",
)
