"""How a rank calls it."""

from grader.calling.sequences import call_local_dropout as call

__all__ = ["call"]
