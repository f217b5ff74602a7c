"""How a rank calls it."""

from grader.calling.splitting_gpt import call_parallel_attention as call

__all__ = ["call"]
