"""How a rank calls it."""

from grader.calling.sequences import call_sequence_gpt as call

__all__ = ["call"]
