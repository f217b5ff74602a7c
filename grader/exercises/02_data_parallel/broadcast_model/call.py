"""How a rank calls it."""

from grader.calling.training import call_with_model as call

__all__ = ["call"]
