"""What is demanded of what went through a stage: the numbers in the marks of its passes, against one process's tensors.

A pass on other numbers (zeros, say) is none of the schedule's, whatever its mark says of its kind and its micro-batch.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from grader.calling.going_through import DX, DY, THROUGH, X, Y, summed
from grader.exercises.technique.rank_by_rank import on_each_rank, spans_called
from grader.judging.exercise import Case, Demand, Look

WORDS = {Y: "what came out", DY: "the gradient of what came out", DX: "the gradient of what went in"}
# Of the sum of magnitudes: what rounding in another order may change.
ROUNDING = {torch.float64: 1e-8, torch.float32: 2.0 ** -12, torch.bfloat16: 2.0 ** -4}


def passes_are(fault: Callable[[Look, int], str], gate: bool) -> Demand:
    """What goes through are the micro-batches, all the way. fault(look, rank): what is wrong with that, in words."""
    return Demand("other numbers", "each pass on its own micro-batch, all the way", on_each_rank(fault), gate=gate,
                  for_right_values=True)


@dataclass(frozen=True)
class Numbers:
    """Right ones of rows, as grader.calling.going_through makes them, (N, 2), and how far off each may be.

    By NumPy, which is quicker with so few numbers.
    """

    right: np.ndarray
    room: np.ndarray

    def of(self, rows: Sequence[int]) -> "Numbers":
        return Numbers(self.right[rows], self.room[rows])

    def in_pieces(self, n: int) -> list["Numbers"]:
        """n of the same number of rows."""
        return [Numbers(*both) for both in zip(np.split(self.right, n), np.split(self.room, n), strict=True)]


@dataclass(frozen=True)
class Told:
    """What a mark tells, beside the right numbers; where: of which pass, and of what."""

    where: str
    found: np.ndarray
    numbers: Numbers

    @classmethod
    def by(cls, mark: dict, numbers: Numbers, where: str) -> "Told":
        return cls(where, np.array(mark["rows"]), numbers)

    @property
    def fits(self) -> bool:
        return self.found.shape == self.numbers.right.shape

    def differs(self, factor: float = 1.0) -> bool:
        return not self.fits or not np.all(abs(self.found - factor * self.numbers.right) <= factor * self.numbers.room)


def numbers_right(tensor: Tensor, rounding: float = 0.0) -> Numbers:
    """Of each row of what one process has. rounding: where it is more than the dtype's."""
    whole = tensor.detach().double()
    magnitude = summed(whole.abs()).numpy()
    room = np.maximum(magnitude, magnitude.mean(0))  # of a row that happens to be small, no more digits than of others
    return Numbers(summed(whole).numpy(), max(rounding, ROUNDING[tensor.dtype]) * room)


def first_difference(forward: Sequence[Told], gradients: Sequence[Told]) -> str:
    """Whose numbers are not the right ones; empty if all are. All gradients of a rank may carry one factor: a loss may be
    divided before or after."""
    known = [(told.found, told.numbers.right) for told in gradients if told.fits]
    square = sum(float((right * right).sum()) for _, right in known)
    factor = sum(float((found * right).sum()) for found, right in known) / square if square else 0.0
    factor = factor if 1e-6 < factor < 1e6 else float("nan")  # which nothing is near
    wrong = [told for told in forward if told.differs()]
    wrong += [told for told in gradients if told.differs(factor)]
    return f"{wrong[0].where} has other numbers than in one process" if wrong else ""


# ── stages that note what goes through them ──


Rows = dict[str, Numbers]  # of X, Y and, where there are any, DY and DX: those of all rows of a batch, in one process


def not_its_micro_batches(plain: Callable[[Case, int], list[Rows]]) -> Callable[[Look, int], str]:
    """What is wrong with what went through a rank's stage.

    plain(case, rank): of each step of training. A step's rows go through in n_micro passes, none of them twice, in whatever
    order and company.
    """

    def fault(look: Look, rank: int) -> str:
        steps, n_micro = plain(look.case, rank), look.case.inputs[rank]["n_micro"]
        passes: dict[int, dict[str, list[dict]]] = defaultdict(lambda: defaultdict(list))
        for span in spans_called(look, rank, THROUGH):
            passes[span.facts["number"]][span.facts["what"]].append(span.facts)
        if len(passes) != n_micro * len(steps):
            return f"rank {rank} made {len(passes)} passes, wanted {n_micro * len(steps)}"
        told, taken = defaultdict(list), set()
        for number, marks in sorted(passes.items()):
            where, step = f"rank {rank}, pass {number}", number // n_micro
            rows = _places(marks[X][0], steps[step][X])
            if not rows:
                return f"{where}: what went in are no rows of the batch"
            if len({*rows}) < len(rows) or taken & {(step, row) for row in rows}:
                return f"{where}: rows go through that were in another pass, or twice in it"
            taken |= {(step, row) for row in rows}
            for what in [what for what in steps[step] if what != X]:
                if not marks[what]:
                    return f"{where}: {WORDS[what]} was not seen"
                told[what] += [Told.by(mark, steps[step][what].of(rows), f"{where}: {WORDS[what]}") for mark in marks[what]]
        return first_difference(told[Y], told[DY] + told[DX])

    return fault


def _places(mark: dict, numbers: Numbers) -> list[int]:
    """Which of these each row is that a mark tells of; empty if one of them is none."""
    found = np.array(mark["rows"])
    off = (abs(found[:, None] - numbers.right) / numbers.room).max(-1)
    return off.argmin(-1).tolist() if np.all(off.min(-1) <= 1) else []
