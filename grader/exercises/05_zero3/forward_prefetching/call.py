"""How a rank calls it."""

from grader.calling.sharding import call_gather_ahead as call

__all__ = ["call"]
