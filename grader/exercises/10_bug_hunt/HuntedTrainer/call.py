"""How a rank calls HuntedTrainer."""

from grader.calling.hunting import look_for as call

__all__ = ["call"]
