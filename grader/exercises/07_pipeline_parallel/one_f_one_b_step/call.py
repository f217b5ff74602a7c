"""How a rank calls one_f_one_b_step."""

from grader.calling.pipelining import call_pipeline_step as call

__all__ = ["call"]
