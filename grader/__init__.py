"""What marks the course: exercises, checks, the judge, autograding. In a notebook: `from grader import check`."""

try:
    from grader.check import CheckFailed, check
except ModuleNotFoundError as error:
    if error.name != "grader.check":
        raise
    from grader.inside.hand_over import CheckFailed, check  # in the sandbox, where no judge is

__all__ = ["CheckFailed", "check"]
