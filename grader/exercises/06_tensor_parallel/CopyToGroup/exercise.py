"""Megatron's f: identity forward, all-reduce backward."""

from grader.exercises.shared.conjugates import conjugate, own, total

EXERCISE = conjugate("f: copy forward, sum backward", y=own, dx=total)
