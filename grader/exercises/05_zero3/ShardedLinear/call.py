"""How a rank calls it."""

from grader.calling.sharding import call_sharded_linear as call

__all__ = ["call"]
