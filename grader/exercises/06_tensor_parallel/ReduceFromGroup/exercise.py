"""Megatron's g: all-reduce forward, identity backward."""

from grader.exercises.shared.conjugates import conjugate, own, total

EXERCISE = conjugate("g: sum forward, copy backward", y=total, dx=own)
