"""How a rank calls it."""

from grader.calling.sequences import call_reduce_replicated as call

__all__ = ["call"]
