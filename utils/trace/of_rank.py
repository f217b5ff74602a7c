"""Something that a rank has once, for all of its threads."""

from typing import Generic, TypeVar

T = TypeVar("T")


class OfRank(Generic[T]):
    """What the process's present rank has, or None.

    A ContextVar would be empty in the threads that autograd computes in on a GPU, and in those that a program starts.
    A process that is several ranks (simulate_ranks) is one of them after the other, and sets it for each.
    """

    def __init__(self):
        self._present: T | None = None

    def get(self) -> T | None:
        return self._present

    def set(self, present: T | None) -> T | None:
        """Returns what there was before, to be set again later."""
        before, self._present = self._present, present
        return before
