"""How a rank calls it."""

from grader.calling.splitting import call_parallel_mlp as call

__all__ = ["call"]
