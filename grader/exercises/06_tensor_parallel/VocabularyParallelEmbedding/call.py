"""How a rank calls it."""

from grader.calling.splitting_gpt import call_parallel_embedding as call

__all__ = ["call"]
