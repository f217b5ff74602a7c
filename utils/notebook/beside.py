"""For the bug hunt: a program's notes beside those of one plain process, and the bugs to choose from."""

import functools
import html
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from utils import figures
from utils.deadlocks.errors import ranks_in_words
from utils.ranks.run import Run

TOLERANCE = 1e-9
GRADIENT, WEIGHT = "gradient of ", "new "  # how table and picture call them
BUGS = [  # more than there are cases
    "some gradients are not reduced", "the sum over ranks is used instead of the mean", "something is reduced twice",
    "the wrong group reduces", "micro-batches are not weighted by their rows",
    "the passes come in the wrong order", "ranks draw the same random numbers", "old weights are used",
]
_OF_CASE = {
    1: (4, "Each micro-batch's mean counted as much as the mean of the whole batch."),
    3: (0, "The head's gradients were never reduced, so each rank trained a head of its own."),
    4: (5, "The warm-up was longest on the last stage, which needs none."),
    6: (2, "The hook had reduced each gradient already."),
    9: (7, "The prefetch left before the optimizer had changed the shards."),
}


def bug_of(case: int) -> dict[str, str]:
    """What is wrong in a case, and why: what predict.compare() takes. (To be looked at when it is repaired.)"""
    number, why = _OF_CASE[case]
    return {"formula": BUGS[number], "why": why}


@dataclass(frozen=True)
class Beside:
    """Notes that differ, of the first step that has any, as a table, and how far all are apart, as a picture.

    rows: {"step", "who", "what", "plain", "program"}; steps: how many were compared.
    apart[rank]: loss, gradient or weight → its relative difference at each step; None where the rank has none.
    first: (rank, loss, gradient or weight, step) of the rows → the one factor by which all its elements are wrong, or None.
    """

    rows: tuple[dict[str, Any], ...]
    steps: int
    apart: tuple[dict[str, tuple[float | None, ...]], ...]
    first: Mapping[tuple[int, str, int], float | None] = field(default_factory=dict)

    @property
    def ranks(self) -> int:
        return len(self.apart)

    @property
    def agrees(self) -> bool:
        return not self.rows

    def in_a_line(self) -> str:
        """In which step something first differs, and what."""
        if self.agrees:
            return "agrees"
        whats = list(dict.fromkeys(row["what"] for row in self.rows))
        weights = [what for what in whats if what.startswith(WEIGHT)]
        gradients = len(whats) - len(weights) - ("loss" in whats)
        parts = ["the loss"] * ("loss" in whats)
        parts += [f"{count} {kind}{'s' * (count > 1)}" for count, kind in ((gradients, "gradient"), (len(weights), "weight"))
                  if count]
        return f"first difference in step {self.rows[0]['step']}: {' and '.join(parts)}"

    def headline(self) -> str:
        if self.agrees:
            return (f"Agrees with the plain process: all losses, gradients and new weights of {self.steps} steps, "
                    f"on {self.ranks} rank{'s' * (self.ranks > 1)}.")
        return f"First difference from the plain process: in step {self.rows[0]['step']}."

    def __repr__(self) -> str:
        if self.agrees:
            return self.headline()
        grid = [list(self.rows[0]), *([str(value) for value in row.values()] for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
        lines = ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in grid]
        return "\n".join([self.headline(), *lines])

    @functools.cached_property
    def picture(self) -> figures.Picture:
        """All that was compared, by rank and step."""
        return figures.departures_figure(self.apart, self.first)

    def _repr_html_(self) -> str:
        if self.agrees:
            return f"<p>{html.escape(self.headline())}</p>"
        lines = [("th", list(self.rows[0])), *(("td", list(row.values())) for row in self.rows)]
        body = "".join("<tr>" + "".join(f"<{tag} style='text-align:left'>{html.escape(str(value))}</{tag}>"
                                        for value in line) + "</tr>" for tag, line in lines)
        return f"<p>{html.escape(self.headline())}</p><table>{body}</table>{figures.figure_html(self.picture)}"


def beside_plain(run: Run, plain: Sequence[Sequence[dict[str, Any]]]) -> Beside:
    """Where the program first differs from one plain process: all that differs in the first step that is not alike.

    run: whose result on each rank is one note a step (hunted.note); plain: what each rank should have noted.
    Raises: ValueError where a rank has not noted each step.
    """
    for rank, (found, right) in enumerate(zip(run.results, plain, strict=True)):
        if not isinstance(found, list) or len(found) != len(right):
            raise ValueError(f"rank {rank} should return a list of {len(right)} notes, one a step; it returned "
                             f"{len(found) if isinstance(found, list) else type(found).__name__}")
    pairs = [[(_flat(note), _flat(due)) for note, due in zip(found, right, strict=True)]
             for found, right in zip(run.results, plain, strict=True)]
    apart = tuple({name: tuple(_apart(note.get(name), due[name]) for note, due in rank) for name in rank[0][1]}
                  for rank in pairs)
    wrong = [step for rank in apart for of_step in rank.values() for step, value in enumerate(of_step) if value]
    if not wrong:
        return Beside((), len(plain[0]), apart)
    step = min(wrong)
    differ = {(number, name): [side.get(name) for side in rank[step]]
              for number, rank in enumerate(pairs) for name in _first_of(apart[number], step)}
    of_rank = {number: [_row(name, *pair) for (other, name), pair in differ.items() if other == number]
               for number in range(len(pairs))}
    first = {(number, name, step): _factor(*pair, least=2) for (number, name), pair in differ.items()}
    return Beside(tuple(_alike_together(step, of_rank)), len(plain[0]), apart, first)


def _flat(note: dict[str, Any]) -> dict[str, torch.Tensor | None]:
    """Loss, gradients, weights, by what they are called in table and picture."""
    gradients = {f"{GRADIENT}{name}": part for name, part in note["gradients"].items()}
    return {"loss": note["loss"], **gradients, **{f"{WEIGHT}{name}": part for name, part in note["weights"].items()}}


def _first_of(apart: dict[str, tuple[float | None, ...]], step: int) -> list[str]:
    """What of a step is looked at: loss and gradients that differ; weights only where both agree, since they follow."""
    differ = [name for name, of_step in apart.items() if of_step[step]]
    return [name for name in differ if name == "loss" or name.startswith(GRADIENT)] or differ


def _alike_together(step: int, of_rank: dict[int, list[dict[str, str]]]) -> Iterator[dict[str, Any]]:
    """One row for all ranks that differ alike."""
    ranks: dict[tuple, list[int]] = defaultdict(list)
    for rank, rows in of_rank.items():
        for row in rows:
            ranks[tuple(row.items())].append(rank)
    for items, members in ranks.items():
        yield {"step": step, "who": ranks_in_words(members), **dict(items)}


def _apart(found: torch.Tensor | None, right: torch.Tensor | None) -> float | None:
    """The largest difference, relative to numbers above 1; 0 where both agree, None where neither is there.

    Infinite where only one is there, or has another shape.
    """
    if found is None or right is None:
        return None if found is right else math.inf
    if found.shape != right.shape:
        return math.inf
    a, b = found.double(), right.double()
    largest = ((a - b).abs() / b.abs().clamp(min=1)).nan_to_num(nan=math.inf).max().item()
    return largest if largest > TOLERANCE else 0.0


def _row(what: str, found: torch.Tensor | None, right: torch.Tensor | None) -> dict[str, str]:
    """The first numbers that differ, and by which factor if it is one."""
    if found is None or right is None:
        return {"what": what, "plain": _shown(right), "program": _shown(found)}
    if found.shape != right.shape:
        return {"what": what, "plain": f"shape {list(right.shape)}", "program": f"shape {list(found.shape)}"}
    a, b = found.double().flatten(), right.double().flatten()
    at = (~((a - b).abs() <= TOLERANCE * b.abs().clamp(min=1))).nonzero().flatten().tolist()[0]
    ratio = _factor(found, right)
    factor = "" if ratio is None else f" ({ratio:g} times plain)"
    return {"what": what, "plain": _shown(b[at]), "program": _shown(a[at]) + factor}


def _factor(found: torch.Tensor | None, right: torch.Tensor | None, least: int = 1) -> float | None:
    """By which one factor all elements are wrong; None where there is none, or of fewer than `least` elements."""
    if found is None or right is None or found.shape != right.shape or found.numel() < least:
        return None
    a, b = found.double().flatten(), right.double().flatten()
    at = b.abs().argmax()
    ratio = float(a[at] / b[at]) if b[at] else 0.0
    return ratio if ratio and torch.allclose(a, b * ratio, rtol=1e-6, atol=1e-12) else None


def _shown(value: torch.Tensor | None) -> str:
    return "–" if value is None else f"{float(value):.6g}" if value.numel() == 1 else f"shape {list(value.shape)}"
