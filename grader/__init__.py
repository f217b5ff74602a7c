"""What marks the course: exercises, checks, the judge, autograding. In a notebook: `from grader import check`."""

import os

if os.environ.get("GRADER_INSIDE"):  # set by grader.sandbox, where there is no judge
    from grader.inside.hand_over import CheckFailed, check
else:
    from grader.check import CheckFailed, check

__all__ = ["CheckFailed", "check"]
