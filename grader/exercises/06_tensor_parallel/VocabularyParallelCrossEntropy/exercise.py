"""VocabularyParallelCrossEntropy (challenge): the loss of logits whose columns are split, and that are never gathered."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.shared.split_inputs import first_wrong_slip
from grader.exercises.technique.splitting import TOLERANCE
from grader.judging.exercise import Case, Draw, Exercise, Slip

Columns = Callable[[Tensor, int], Tensor]  # (targets less the rank's first id, its columns P) -> the columns looked up


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, rows: int, columns: int, dtype: str = "float64", shift: float = 0.0) -> list[dict[str, Any]]:
        kind = getattr(torch, dtype)
        whole = draw.tensor(rows, n * columns, dtype=torch.float64) / 17 + shift
        targets = torch.arange(rows) * draw.integer(1, 4) * max(1, columns - 1) % (n * columns)
        weights = draw.tensor(rows, dtype=torch.float64) / 20
        return [{"logits": part.to(kind).contiguous(), "targets": targets, "weights": weights.to(kind)}
                for part in whole.chunk(n, 1)]

    sizes = [(1, 4, 5, "float64", 0.0), (2, 7, 3, "float64", 900.0), (4, 9, 3, "float64", -900.0), (3, 5, 6, "float32", 0.0),
             (2, 6, 5, "bfloat16", 0.0)]
    if grading:
        sizes.append((4, 3, 1, "float64", 0.0))
    cases = [Case(f"{ranks(n)}, {rows} rows, {columns} columns each, {dtype}{f', shifted by {shift:g}' if shift else ''}",
                  tuple(inputs(n, rows, columns, dtype, shift))) for n, rows, columns, dtype, shift in sizes]
    return [*cases, group_case(lambda n: inputs(n, 5, 4), "4 columns each")]


def _parts(case: Case, rank: int) -> list[Tensor]:
    """Each member's columns of the logits, in float64."""
    return [part.double() for part in case.peers_inputs(rank, "logits")]


def _log_sum(case: Case, rank: int) -> Tensor:
    return torch.cat(_parts(case, rank), 1).logsumexp(1)


def _softmax(case: Case, rank: int) -> Tensor:
    """Of this rank's columns."""
    return (_parts(case, rank)[case.group_rank(rank)] - _log_sum(case, rank)[:, None]).exp()


def _chosen(case: Case, rank: int) -> Tensor:
    """Each target's logit."""
    return torch.cat(_parts(case, rank), 1).gather(1, case.inputs[rank]["targets"][:, None])[:, 0]


def _hot(case: Case, rank: int) -> Tensor:
    """This rank's columns of the targets' one-hot."""
    parts = _parts(case, rank)
    whole = F.one_hot(case.inputs[rank]["targets"], sum(part.shape[1] for part in parts))
    return whole.tensor_split(len(parts), 1)[case.group_rank(rank)]


def _back(case: Case, rank: int, dlogits: Tensor) -> Tensor:
    """Times the gradient that comes in."""
    return dlogits * case.inputs[rank]["weights"].double()[:, None]


def _right(case: Case, rank: int) -> dict[str, Any]:
    dtype = case.inputs[rank]["logits"].dtype
    dlogits = _back(case, rank, _softmax(case, rank) - _hot(case, rank))
    return {"losses": (_log_sum(case, rank) - _chosen(case, rank)).to(dtype), "dlogits": dlogits.to(dtype),
            "inputs left as they were": True}


def _own_sum(case: Case, rank: int) -> Tensor:
    """The losses, where exponentials are summed over this rank's columns only."""
    return _parts(case, rank)[case.group_rank(rank)].logsumexp(1) - _chosen(case, rank)


def _column_0(shifted: Tensor, columns: int) -> Tensor:
    return shifted * ((shifted >= 0) & (shifted < columns))


def _modulo(shifted: Tensor, columns: int) -> Tensor:
    return shifted % columns


def _looked_up(case: Case, rank: int, member: int, of_foreign: Columns) -> Tensor:
    """The columns that the group's `member` looks up, one for each target."""
    columns = case.inputs[rank]["logits"].shape[1]
    return of_foreign(case.inputs[rank]["targets"] - member * columns, columns)


def _foreign_added(of_foreign: Columns, less_maximum: bool) -> Callable[[Case, int], Tensor]:
    """The losses, where every rank adds a logit for every target, less the row's maximum or not."""

    def losses(case: Case, rank: int) -> Tensor:
        parts = _parts(case, rank)
        maximum = torch.cat(parts, 1).amax(1) if less_maximum else 0.0
        chosen = [part.gather(1, _looked_up(case, rank, member, of_foreign)[:, None])[:, 0] - maximum
                  for member, part in enumerate(parts)]
        return _log_sum(case, rank) - maximum - sum(chosen)

    return losses


def _hot_everywhere(case: Case, rank: int, of_foreign: Columns) -> Tensor:
    hot = F.one_hot(_looked_up(case, rank, case.group_rank(rank), of_foreign), case.inputs[rank]["logits"].shape[1])
    return _back(case, rank, _softmax(case, rank) - hot)


def _slip(id: str, hint: str, part: str, value: Callable[[Case, int], Tensor]) -> Slip:
    return first_wrong_slip(id, hint, part, lambda case, r, right: value(case, r).to(right.dtype))


_FOREIGN = ("Every rank adds a logit for every target, also for targets of other ranks: theirs must be 0 before the "
            "all-reduce.")
_HOT = ("The losses are right; the −1 at the target is there on every rank: only the rank that has the target's column "
        "subtracts it.")

EXERCISE = Exercise(
    title="(c) Cross-entropy without gathered logits",
    parameters=("logits_BP", "targets_B", "group"),
    make_cases=_cases,
    oracle=each_rank(_right),
    tolerance=TOLERANCE,
    optional=True,
    slips=(
        _slip("local softmax", "The sum of exponentials is that of the own columns only: all-reduce it (and subtract one "
                               "maximum everywhere).", "losses", _own_sum),
        *(_slip("target looked up everywhere", _FOREIGN, "losses", _foreign_added(of_foreign, less_maximum))
          for of_foreign in (_column_0, _modulo) for less_maximum in (False, True)),
        _slip("incoming gradient lost", "The losses are right; dlogits do not depend on the losses' gradient: multiply by "
                                        "dloss_B, row by row.", "dlogits",
              lambda case, r: _softmax(case, r) - _hot(case, r)),
        _slip("one-hot lost", "The losses are right; dlogits lack the −1 at the target.", "dlogits",
              lambda case, r: _back(case, r, _softmax(case, r))),
        _slip("one-hot everywhere", _HOT, "dlogits", lambda case, r: _hot_everywhere(case, r, _column_0)),
        _slip("one-hot everywhere", _HOT, "dlogits", lambda case, r: _hot_everywhere(case, r, _modulo)),
        first_wrong_slip("input changed", "The results are right, but the logits were changed in place: somebody else may "
                                          "need them.", "inputs left as they were", lambda case, r, right: False),
    ),
)
