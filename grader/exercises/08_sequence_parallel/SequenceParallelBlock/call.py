"""How a rank calls it."""

from grader.calling.sequences import call_sequence_block as call

__all__ = ["call"]
