"""What right cases earn: most of the values' points for ordinary inputs, the rest for the odd ones, edge by edge."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from grader.judging.trial import Trial

EDGES_SHARE = 0.4  # of the values' points, in equal parts for the edges that an exercise has
ORDINARY = "ordinary inputs"
REFUSALS, GROUPS, ONE_RANK, EMPTY, NUMBER_TYPES = "refusals", "groups", "one rank", "empty parts", "number types"


@dataclass(frozen=True)
class Part:
    """Ordinary inputs, or one edge: how many of its cases are right, and the points that it earns if all are."""

    name: str
    right: int
    cases: int
    points: float

    @property
    def complete(self) -> bool:
        return self.right == self.cases

    def __str__(self) -> str:
        if self.complete:
            return self.name
        return f"{self.name} ({self.right} of {self.cases} case{'s' * (self.cases > 1)} right)"


def edges_of(trials: Sequence[Trial], words: Mapping[str, str]) -> list[str]:
    """Of each case, the edge that it belongs to; "" for ordinary inputs, of which there are some.

    words: edge -> what names of its cases have in them, a regular expression.
    """
    usual = _usual(trials)
    widest = max((trial.case.world_size for trial in trials), default=1)
    edges = [_edge(trial, words, alone=widest > 1 and trial.case.world_size == 1, usual=usual) for trial in trials]
    return edges if "" in edges else [""] * len(edges)


def parts_of(edges: Sequence[str], right: Sequence[bool], points: float) -> list[Part]:
    """Ordinary inputs first. right: of the cases that were run, in order; `points` are divided between the parts."""
    names = list(dict.fromkeys(["", *edges]))
    share = EDGES_SHARE / (len(names) - 1) if len(names) > 1 else 0.0
    of_part = {name: [i for i, edge in enumerate(edges) if edge == name] for name in names}
    return [Part(name or ORDINARY, sum(i < len(right) and right[i] for i in places), len(places),
                 points * (share if name else 1 - share * (len(names) - 1))) for name, places in of_part.items()]


def earned_by(parts: Sequence[Part], points: float) -> float:
    """Of so many points. Edges earn nothing before all ordinary inputs are right."""
    if all(part.complete for part in parts):
        return points
    if not parts[0].complete:
        return 0.0
    return round(sum(part.points for part in parts if part.complete), 2)


def _edge(trial: Trial, words: Mapping[str, str], alone: bool, usual: frozenset[torch.dtype]) -> str:
    if trial.refused:
        return REFUSALS
    if trial.case.groups is not None:
        return GROUPS
    if alone:
        return ONE_RANK
    if any(tensor.numel() == 0 for tensor in _tensors(trial)):
        return EMPTY
    by_name = next((edge for edge, known in words.items() if re.search(known, trial.case.name)), "")
    return by_name or (NUMBER_TYPES if _types(trial) != usual else "")


def _usual(trials: Sequence[Trial]) -> frozenset[torch.dtype]:
    """The number types of most cases."""
    counts = Counter(_types(trial) for trial in trials if not trial.refused and trial.case.groups is None)
    return max(counts, key=counts.__getitem__, default=frozenset())


def _types(trial: Trial) -> frozenset[torch.dtype]:
    """Of fractions; where there are none, of whole numbers: else these are ids, and lengths."""
    types = {tensor.dtype for tensor in _tensors(trial)}
    return frozenset({dtype for dtype in types if dtype.is_floating_point} or types)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Trial):
        yield from _tensors([*value.case.inputs, *value.right])
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _tensors(part)
