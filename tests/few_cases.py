"""An exercise with few of its cases, for what is marked in the sandbox, where each costs most."""

import functools
from collections.abc import Collection
from dataclasses import dataclass, fields

from grader.exercises import EXERCISES
from grader.judging.exercise import Case, Exercise, Trial

KINDS = {  # of cases that are not plain
    "weighed": lambda case: case.weighed,
    "watched": lambda case: case.inputs[0].get("watched"),
    "sealed": lambda case: case.sealed,
    "late ranks": lambda case: any(case.late_s),
}


@functools.lru_cache(maxsize=16)
def drawn(name: str, seed: int) -> list[tuple[Case, Case]]:
    """An exercise's cases in grading: once for all who try it."""
    return EXERCISES[name].drawn(seed, grading=True)


@functools.lru_cache(maxsize=64)
def right_of(name: str, case: Case) -> list:
    return EXERCISES[name].right(case)


@dataclass(frozen=True)
class FewCases(Exercise):
    """Some of its plain cases, and those of some kinds. case: the name of the only plain one."""

    case: str = ""
    plain: int = 2
    kinds: tuple[str, ...] = ()

    def trials(self, seed: int, grading: bool) -> tuple[Trial, ...]:
        name = self.id.split("__")[-1]
        pairs = drawn(name, seed)
        edges = EXERCISES[name].edges_among([Trial(case, []) for case, _ in pairs])
        plain = {case: edge for (case, _), edge in zip(pairs, edges, strict=True)
                 if not any(is_one(case) for is_one in KINDS.values())}
        chosen = self._chosen(list(plain), [case for case, edge in plain.items() if not edge])
        return tuple(Trial(case, right_of(name, punctual)) for case, punctual in pairs
                     if any(case is one for one in chosen) or any(KINDS[kind](case) for kind in self.kinds))

    def _chosen(self, cases: list[Case], ordinary: list[Case]) -> list[Case]:
        """The named one, or so many, from first to last; a single one earns the first points: the third, if it does."""
        if self.case:
            named = [case for case in cases if case.name == self.case]
            assert named, [case.name for case in cases]
            return named[:1]
        if self.plain == 1:
            third = cases[2:3]
            return third if third and third[0] in ordinary else ordinary[len(ordinary) // 2:][:1] or cases[:1]
        return [cases[i * (len(cases) - 1) // (self.plain - 1)] for i in range(self.plain)] if cases else []


def with_few_cases(exercise: Exercise, kinds: Collection[str] = tuple(KINDS), **changes) -> FewCases:
    """changes: as of dataclasses.replace."""
    parts = {part.name: getattr(exercise, part.name) for part in fields(exercise)}
    return FewCases(**parts | changes, kinds=tuple(kinds))
