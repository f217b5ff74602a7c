"""How a rank calls it."""

from grader.calling.schedules_run import call_rank_fault as call

__all__ = ["call"]
