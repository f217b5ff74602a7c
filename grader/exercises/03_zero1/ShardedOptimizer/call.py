"""How a rank calls it."""

from grader.calling.training import call_optimizer as call

__all__ = ["call"]
