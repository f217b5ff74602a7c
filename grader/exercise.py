"""An exercise is data: its cases, its oracle, the technique it demands, its symptoms with hints, its points."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from grader.inside.case import Case
from grader.inside.evidence import Evidence

LATE_S = 0.1
VALUES, TECHNIQUE = "values", "technique"


@dataclass(frozen=True)
class Look:
    """What a symptom or a demand looks at: one case, what came of it, and what should have."""

    case: Case
    evidence: Evidence
    expected: list[Any]

    @property
    def outputs(self) -> list[Any]:
        return self.evidence.outputs

    @property
    def active_ranks(self) -> list[int]:
        return [rank for rank in range(self.case.world_size) if self.case.members(rank)]

    def pairs(self) -> list[tuple[int, Any, Any]]:
        """(rank, found, expected) for every rank that takes part."""
        return [(rank, self.outputs[rank], self.expected[rank]) for rank in self.active_ranks]


@dataclass(frozen=True)
class Symptom:
    """A known way to be wrong. `matches(look)` says whether a failed case shows it; `hint` is the lesson."""

    id: str
    hint: str
    matches: Callable[[Look], bool]


@dataclass(frozen=True)
class Demand:
    """Something the technique must do. `judge(look)` returns (met, what was wanted and seen in a few words).

    gate: without it the values earn nothing either (the exercise was not done, only its result obtained).
    """

    id: str
    label: str
    hint: str
    judge: Callable[[Look], tuple[bool, str]]
    gate: bool = False


@dataclass(frozen=True)
class Exercise:
    """See the module's first line.

    parameters: the function's parameters, in order; "group" is filled with the process group.
    make_cases: (random generator, is this for grading?) -> cases. Public cases come from a fixed seed.
    oracle: case -> the expected result of each rank, computed by one process.
    adapter: name of the function in grader.adapters that calls the student's function inside a rank.
    reading: (case, what a rank returned) -> what of it is compared with the oracle's, where several results are right;
        a pure function, and what it raises makes the result wrong.
    """

    id: str
    unit: str
    title: str
    parameters: tuple[str, ...]
    make_cases: Callable[[Draw, bool], Sequence[Case]]
    oracle: Callable[[Case], list[Any]]
    points: dict[str, float] = field(default_factory=lambda: {VALUES: 2, TECHNIQUE: 2})
    demands: tuple[Demand, ...] = ()
    symptoms: tuple[Symptom, ...] = ()
    adapter: str = "call_with_group"
    tolerance: float = 0.0
    timeout_s: float = 30.0
    optional: bool = False
    reading: Callable[[Case, Any], Any] = lambda case, found: found

    def cases(self, seed: int, grading: bool) -> tuple[Case, ...]:
        """The cases drawn from `seed`; for grading also one of them again, with each end of the line late in turn."""
        drawn = tuple(self.make_cases(Draw(seed), grading))
        widest = max((case for case in drawn if case.groups is None), key=lambda case: case.world_size, default=None)
        if not grading or widest is None or widest.world_size == 1:
            return drawn
        late = [[LATE_S if rank == one else 0.0 for rank in range(widest.world_size)] for one in (0, widest.world_size - 1)]
        return drawn + tuple(replace(widest, name=f"{widest.name}, rank {seconds.index(LATE_S)} late",
                                     late_s=tuple(seconds)) for seconds in late)

    @property
    def max_points(self) -> float:
        return sum(self.points.values())


class Draw:
    """Random inputs from one seed. Values are small whole numbers, so that sums are exact in any order."""

    def __init__(self, seed: int):
        self.numbers = random.Random(seed)
        self._torch = torch.Generator().manual_seed(seed)

    def tensor(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Whole numbers from -50 to 50, none of them 0: a lost or a doubled part always shows."""
        magnitude = torch.randint(1, 51, shape, generator=self._torch)
        sign = torch.randint(0, 2, shape, generator=self._torch) * 2 - 1
        return (magnitude * sign).to(dtype)

    def tensors(self, world_size: int, *shape: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
        """One tensor a rank."""
        return [self.tensor(*shape, dtype=dtype) for _ in range(world_size)]

    def integer(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return self.numbers.randint(low, high)
