"""How a rank calls it."""

from grader.calling.training import call_sharded_step as call

__all__ = ["call"]
