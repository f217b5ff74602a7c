"""How a rank calls FullyShardOddModules."""

from grader.calling.fully_sharding import call_fully_sharded as call

__all__ = ["call"]
