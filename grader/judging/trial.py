"""One case with its right results, before and after somebody's function was tried on it."""

from dataclasses import dataclass
from typing import Any

from grader.evidence.case import Case
from grader.evidence.evidence import Evidence


@dataclass(frozen=True)
class Trial:
    """A case and each rank's right result."""

    case: Case
    right: list[Any]

    @property
    def working(self) -> list[int]:
        """The ranks that are no bystanders."""
        return [rank for rank in range(self.case.world_size) if self.case.members(rank)]


@dataclass(frozen=True)
class Look(Trial):
    """What a symptom or a demand looks at: one case, what should come of it, and what did."""

    evidence: Evidence

    @property
    def outputs(self) -> list[Any]:
        return self.evidence.outputs

    def pairs(self) -> list[tuple[int, Any, Any]]:
        """(rank, found, right) for every rank that takes part."""
        return [(rank, self.outputs[rank], self.right[rank]) for rank in self.working]
