"""How a rank calls it."""

from grader.calling.rings import call_attention as call

__all__ = ["call"]
