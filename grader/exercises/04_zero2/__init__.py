"""Unit 04: ZeRO-2, gradients in shards as well."""

ORDER = ("shard_gradients", "GradientBuckets", "zero2_bytes", "stage_that_fits", "zero2_traffic", "Zero2")
