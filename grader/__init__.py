"""What marks the course: exercises, checks, the judge, autograding. In a notebook: `from grader import check`."""

from grader.check import CheckFailed, check

__all__ = ["CheckFailed", "check"]
