"""How a rank calls case_7."""

from grader.calling.pipelining import to_the_ends as hand_out
from grader.calling.plain import call_once as call

__all__ = ["call", "hand_out"]
