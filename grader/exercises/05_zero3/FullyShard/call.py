"""How a rank calls it."""

from grader.calling.sharding import call_fully_shard as call

__all__ = ["call"]
