"""How a rank calls it."""

from grader.calling.schedules_run import call_generator as call

__all__ = ["call"]
