"""How a rank calls one_f_one_b_schedule."""

from grader.calling.schedules_run import call_generator as call

__all__ = ["call"]
