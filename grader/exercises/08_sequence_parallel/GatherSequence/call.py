"""How a rank calls GatherSequence."""

from grader.calling.sequences import call_sequence_function as call

__all__ = ["call"]
