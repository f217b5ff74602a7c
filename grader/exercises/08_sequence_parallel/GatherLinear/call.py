"""How a rank calls it."""

from grader.calling.sequences import call_gather_linear as call

__all__ = ["call"]
