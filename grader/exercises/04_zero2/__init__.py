"""Unit 04: ZeRO-2, gradients in shards as well."""

ORDER = ("shard_gradients", "zero2_bytes", "zero2_traffic", "Zero2")
