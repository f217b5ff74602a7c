"""How a rank calls ScatterSequence."""

from grader.calling.sequences import call_sequence_function as call

__all__ = ["call"]
