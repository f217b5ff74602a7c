"""How a rank calls it."""

from grader.calling.training import call_step as call

__all__ = ["call"]
