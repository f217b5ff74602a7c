"""How a rank calls it."""

from grader.calling.rings import call_ring_attention as call

__all__ = ["call"]
