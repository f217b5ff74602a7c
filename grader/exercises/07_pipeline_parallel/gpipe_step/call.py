"""How a rank calls gpipe_step."""

from grader.calling.pipelining import call_pipeline_step as call

__all__ = ["call"]
