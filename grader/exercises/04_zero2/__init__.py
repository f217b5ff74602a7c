"""Unit 04: ZeRO-2, gradients in shards as well."""

ORDER = ("shard_gradients", "GradientBuckets", "Zero2")
