"""The functions that a notebook's exercise cells define."""

from grader.exercises.references import ROOT, functions_of

__all__ = ["ROOT", "functions_of"]
