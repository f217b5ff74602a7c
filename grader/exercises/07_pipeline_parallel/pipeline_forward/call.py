"""How a rank calls it."""

from grader.calling.pipelining import call_pipeline_forward as call

__all__ = ["call"]
