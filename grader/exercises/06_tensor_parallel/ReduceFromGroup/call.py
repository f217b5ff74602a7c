"""How a rank calls it."""

from grader.calling.splitting import call_conjugate as call

__all__ = ["call"]
