"""How a rank calls it."""

from grader.calling.watching_inputs import call

__all__ = ["call"]
