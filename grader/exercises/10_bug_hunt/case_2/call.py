"""How a rank calls case_2."""

from grader.calling.plain import call_once as call

__all__ = ["call"]
