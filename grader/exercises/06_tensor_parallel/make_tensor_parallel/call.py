"""How a rank calls it."""

from grader.calling.splitting_gpt import call_tensor_parallel_gpt as call

__all__ = ["call"]
