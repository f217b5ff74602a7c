"""How a rank calls zero_bubble_schedule."""

from grader.calling.schedules_run import call_generator as call

__all__ = ["call"]
