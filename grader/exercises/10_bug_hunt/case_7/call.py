"""How a rank calls case_7."""

from grader.calling.plain import call_once as call

__all__ = ["call"]
