"""How a rank calls ReduceFromGroup."""

from grader.calling.splitting import call_conjugate as call

__all__ = ["call"]
