"""How a rank calls interleaved_schedule."""

from grader.calling.schedules_run import call_generator as call

__all__ = ["call"]
