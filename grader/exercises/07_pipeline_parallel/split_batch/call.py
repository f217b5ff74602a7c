"""How a rank calls it."""

from grader.calling.pipelining import call_splitting as call

__all__ = ["call"]
