"""What marks the course: exercises, checks, the judge, autograding. In a notebook: `from grader import check, progress`.

checks: check.<exercise>(fn). contracts: what notebooks say of their exercises. not_written: what a cell does that needs
what is not written. standing: progress(). hunt: the programs of the blind hunt. broken: programs with a bug. exercises: the
exercises. calling: how a rank calls a function. evidence: what comes of it. judging: from evidence to a verdict. sandbox:
where students' code is marked. course: nbgrader's side. report: how a class did. bundle: the students' archive.
translation: catalogues for courses in other languages.
"""

import importlib
import os

__all__ = ["CheckFailed", "check", "draw_program", "progress"]


def __getattr__(name: str):
    """Only when asked for: ranks, and what runs a notebook's cells, do without.

    GRADER_CHECKS names the module whose checks these are: in the sandbox there is no judge.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "CheckFailed":
        from grader.calling.checked import CheckFailed

        return CheckFailed
    return getattr(importlib.import_module(os.environ.get("GRADER_CHECKS", "grader.checks")), name)
