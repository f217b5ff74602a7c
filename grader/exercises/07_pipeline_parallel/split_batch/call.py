"""How a rank calls split_batch."""

from grader.calling.pipelining import call_splitting as call

__all__ = ["call"]
