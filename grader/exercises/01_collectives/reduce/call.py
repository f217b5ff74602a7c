"""How a rank calls it."""

from grader.calling.ways import call_watching_inputs as call

__all__ = ["call"]
