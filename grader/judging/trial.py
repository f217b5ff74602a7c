"""A case with what is right, and a look at what a function made of it."""

from dataclasses import dataclass
from typing import Any

from grader.evidence.case import REFUSED, Case
from grader.evidence.evidence import Evidence
from grader.judging.compare import same


@dataclass(frozen=True, eq=False)
class Trial:
    """A case and each rank's right result."""

    case: Case
    right: list[Any]

    @property
    def working(self) -> list[int]:
        """The ranks that are no bystanders."""
        return [rank for rank in range(self.case.world_size) if self.case.members(rank)]

    @property
    def refused(self) -> bool:
        """Whether it is right to raise a ValueError: the case's sizes do not fit."""
        return any(isinstance(right, dict) and REFUSED in right for right in self.right)


@dataclass(frozen=True, eq=False)
class Look(Trial):
    """What a symptom or a demand looks at: one case, what should come of it, and what did. tolerance: the exercise's."""

    evidence: Evidence
    tolerance: float = 0.0

    @property
    def outputs(self) -> list[Any]:
        return self.evidence.outputs

    def same(self, found: Any, right: Any) -> bool:
        """Whether two results are equal, as the exercise asks for it."""
        return same(found, right, self.tolerance)

    def pairs(self) -> list[tuple[int, Any, Any]]:
        """(rank, found, right) for every rank that takes part."""
        return [(rank, self.outputs[rank], self.right[rank]) for rank in self.working]
