"""How a rank calls it."""

from grader.calling.rings import call_merge as call

__all__ = ["call"]
