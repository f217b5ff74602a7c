"""How a rank calls CopyToGroup."""

from grader.calling.splitting import call_conjugate as call

__all__ = ["call"]
