"""What marks the course: exercises, checks, the judge, autograding. In a notebook: `from grader import check`."""

import os

__all__ = ["CheckFailed", "check"]

if not os.environ.get("GRADER_INSIDE"):
    from grader.check import CheckFailed, check
else:  # set by grader.sandbox, where there is no judge
    def __getattr__(name: str):
        """Only when asked for: what runs the cells needs no torch."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from grader.inside import hand_over

        return getattr(hand_over, name)
