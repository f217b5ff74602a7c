"""How a rank calls ColumnParallelLinear."""

from grader.calling.splitting import call_split_linear as call

__all__ = ["call"]
