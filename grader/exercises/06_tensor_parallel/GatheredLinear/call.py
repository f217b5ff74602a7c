"""How a rank calls it."""

from grader.calling.splitting import call_gathered_linear as call

__all__ = ["call"]
