"""How a rank calls it."""

from grader.calling.schedules_run import call_pipeline as call

__all__ = ["call"]
