"""How a rank calls it."""

from grader.calling.sharding import call_flat_shard as call

__all__ = ["call"]
