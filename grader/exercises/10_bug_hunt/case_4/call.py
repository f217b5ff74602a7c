"""How a rank calls case_4."""

from grader.calling.pipelining import to_the_ends as hand_out
from grader.calling.with_group import call

__all__ = ["call", "hand_out"]
