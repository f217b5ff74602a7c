"""How a rank calls it."""

from grader.calling.splitting_gpt import call_parallel_cross_entropy as call

__all__ = ["call"]
