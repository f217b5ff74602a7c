"""VocabularyParallelCrossEntropy (challenge): the loss of logits whose columns are split, and that are never gathered."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.shared.sequence_inputs import own_piece
from grader.exercises.shared.split_inputs import first_wrong_slip, in_dtype_of
from grader.exercises.technique.splitting import TOLERANCE
from grader.judging.exercise import Case, Draw, Exercise, Slip

Columns = Callable[[Tensor, int], Tensor]  # (targets less the rank's first id, its columns P) -> the columns looked up


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, rows: int, columns: int, dtype: str = "float64", shift: float = 0.0,
               below: float = 0.0) -> tuple[dict[str, Any], ...]:
        kind = getattr(torch, dtype)
        # where they are shifted, every second row lies as far on the other side: rows have nothing in common
        sides = torch.tensor([1.0, -1.0]).repeat(rows)[:rows, None] * shift
        whole = draw.tensor(rows, n * columns, dtype=torch.float64) / 16 + sides  # float32 holds these
        whole[:, 0] -= below  # so the first row's target: its exponential is 0
        targets = torch.arange(rows) * draw.integer(1, 4) * max(1, columns - 1) % (n * columns)
        weights = draw.tensor(rows, dtype=torch.float64) / 20
        return tuple({"logits": part.to(kind).contiguous(), "targets": targets, "weights": weights.to(kind)}
                     for part in whole.chunk(n, 1))

    sizes = [(1, 4, 5, "float64", 0.0), (2, 7, 3, "float64", 896.0), (4, 9, 3, "float64", -896.0), (3, 5, 6, "float32", 0.0),
             (2, 6, 5, "bfloat16", 0.0)]
    if grading:
        sizes.append((4, 3, 1, "float64", 0.0))
    cases = [Case(f"{ranks(n)}, {rows} rows, {columns} columns each, {dtype}{f', shifted by {shift:g}' if shift else ''}",
                  inputs(n, rows, columns, dtype, shift)) for n, rows, columns, dtype, shift in sizes]
    cases.append(Case("2 ranks, a column far below the others, float32", inputs(2, 4, 3, "float32", below=150.0)))
    return [*cases, group_case(lambda n: inputs(n, 5, 4), "4 columns each")]


def _logits(case: Case, rank: int) -> Tensor:
    """The whole rows, in float64."""
    return torch.cat([part.double() for part in case.peers_inputs(rank, "logits")], 1)


def _chosen(case: Case, rank: int) -> Tensor:
    """Each target's logit."""
    return _logits(case, rank).gather(1, case.inputs[rank]["targets"][:, None])[:, 0]


def _less_hot(case: Case, rank: int, hot: Tensor | float) -> Tensor:
    """This rank's columns of the softmax, less these."""
    logits = _logits(case, rank)
    return (own_piece(case, rank, logits, 1) - logits.logsumexp(1)[:, None]).exp() - hot


def _hot(case: Case, rank: int) -> Tensor:
    """This rank's columns of the targets' one-hot."""
    vocabulary = _logits(case, rank).shape[1]
    return own_piece(case, rank, F.one_hot(case.inputs[rank]["targets"], vocabulary), 1)


def _dlogits(case: Case, rank: int, hot: Tensor | float) -> Tensor:
    """With this in place of the one-hot, times the gradient that comes in."""
    return _less_hot(case, rank, hot) * case.inputs[rank]["weights"].double()[:, None]


def _right(case: Case, rank: int) -> dict[str, Any]:
    right = {"losses": _right_losses(case, rank),
             "dlogits": _dlogits(case, rank, _hot(case, rank)), "inputs left as they were": True}
    return in_dtype_of(right, case.inputs[rank]["logits"])


def _own_sum(case: Case, rank: int) -> Tensor:
    """The losses, where exponentials are summed over this rank's columns only."""
    return own_piece(case, rank, _logits(case, rank), 1).logsumexp(1) - _chosen(case, rank)


def _column_0(shifted: Tensor, columns: int) -> Tensor:
    return shifted * ((shifted >= 0) & (shifted < columns))


def _looked_up(case: Case, rank: int, member: int, of_foreign: Columns) -> Tensor:
    """The columns that the group's `member` looks up, one for each target."""
    columns = case.inputs[rank]["logits"].shape[1]
    return of_foreign(case.inputs[rank]["targets"] - member * columns, columns)


def _foreign_added(of_foreign: Columns, less_maximum: bool, case: Case, rank: int) -> Tensor:
    """The losses, where every rank adds a logit for every target, less the row's maximum or not."""
    logits = _logits(case, rank)
    maximum = logits.amax(1) if less_maximum else 0.0
    chosen = [part.gather(1, _looked_up(case, rank, member, of_foreign)[:, None])[:, 0] - maximum
              for member, part in enumerate(logits.chunk(case.group_size(rank), 1))]
    return logits.logsumexp(1) - maximum - sum(chosen)


def _hot_everywhere(of_foreign: Columns, case: Case, rank: int) -> Tensor:
    """dlogits, where every rank subtracts 1 for every target."""
    columns = case.inputs[rank]["logits"].shape[1]
    return _dlogits(case, rank, F.one_hot(_looked_up(case, rank, case.group_rank(rank), of_foreign), columns))


def _slip(id: str, hint: str, part: str, value: Callable[[Case, int], Tensor]) -> Slip:
    return first_wrong_slip(id, hint, part, lambda case, r, right: value(case, r).to(right.dtype))


def _own_maximum(case: Case, rank: int) -> Tensor:
    """The losses, where each rank subtracts the maximum of its own columns."""
    parts = _logits(case, rank).chunk(case.group_size(rank), 1)
    sums = sum((part - part.amax(1, keepdim=True)).exp().sum(1) for part in parts)
    owners = case.inputs[rank]["targets"] // parts[0].shape[1]
    maxima = torch.stack([part.amax(1) for part in parts], 1)
    return sums.log() - (_chosen(case, rank) - maxima.gather(1, owners[:, None])[:, 0])


def _right_losses(case: Case, rank: int) -> Tensor:
    return _logits(case, rank).logsumexp(1) - _chosen(case, rank)


def _first_column(change: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Case, int], Tensor]:
    """The losses, changed where the target is a rank's first column by change(its logit, the one before it)."""

    def losses(case: Case, rank: int) -> Tensor:
        logits, targets = _logits(case, rank), case.inputs[rank]["targets"]
        z = logits - logits.amax(1, keepdim=True)
        before = z.gather(1, (targets - 1).clamp(min=0)[:, None])[:, 0] * (targets > 0)
        first = targets % case.inputs[rank]["logits"].shape[1] == 0
        return _right_losses(case, rank) + first * change(_chosen(case, rank) - logits.amax(1), before)

    return losses


def _log_too_early(case: Case, rank: int) -> Tensor:
    """The losses, where logarithms are summed over ranks."""
    logits = _logits(case, rank)
    maximum = logits.amax(1)
    parts = (logits - maximum[:, None]).chunk(case.group_size(rank), 1)
    return sum(part.logsumexp(1) for part in parts) - (_chosen(case, rank) - maximum)


def _own_softmax(case: Case, rank: int) -> Tensor:
    """dlogits, where the softmax is that of its own columns."""
    own = own_piece(case, rank, _logits(case, rank), 1)
    return (own.softmax(1) - _hot(case, rank)) * case.inputs[rank]["weights"].double()[:, None]


def _hot_unscaled(case: Case, rank: int) -> Tensor:
    """dlogits, where only the softmax is multiplied by the gradient that comes in."""
    return _dlogits(case, rank, 0.0) - _hot(case, rank)


WRONG_COLUMNS: tuple[Columns, ...] = (_column_0, torch.remainder, lambda shifted, columns: shifted.clamp(0, columns - 1))
_FOREIGN = ("Every rank adds a logit for every target, also for targets of other ranks: theirs must be 0 before the "
            "all-reduce.")
_HOT = ("The losses are right; the −1 at the target is there on every rank: only the rank that has the target's column "
        "subtracts it.")

EXERCISE = Exercise(
    title="(c) Cross-entropy without gathered logits",
    parameters=("logits_BP", "targets_B", "group"),
    forbidden=("torch.distributed.tensor",),
    trains=True,  # as what is forbidden takes as long to import
    make_cases=_cases,
    oracle=each_rank(_right),
    tolerance=TOLERANCE,
    slips=(
        _slip("local softmax", "The sum of exponentials is that of your columns only: all-reduce it (and subtract one "
                               "maximum everywhere).", "losses", _own_sum),
        *(_slip("target looked up everywhere", _FOREIGN, "losses", partial(_foreign_added, of_foreign, less_maximum))
          for of_foreign in WRONG_COLUMNS for less_maximum in (False, True)),
        _slip("own maximum", "Each rank subtracts the maximum of its own columns, so their sums do not belong together: "
                             "all-reduce the maximum first (ReduceOp.MAX).", "losses", _own_maximum),
        _slip("maximum not in target", "The maximum is subtracted from the sum's logits and not from the target's: the loss "
                                       "is log Σ exp(z − m) − (z_target − m).", "losses",
              lambda case, r: _right_losses(case, r) - _logits(case, r).amax(1)),
        *(_slip("first column", "Where the target is a rank's first column the losses are wrong: a rank's own targets are "
                                "those with start ≤ target < stop.", "losses", _first_column(change))
          for change in (lambda chosen, before: chosen, lambda chosen, before: -before)),
        _slip("log too early", "Logarithms are summed over ranks: sum the exponentials, and take the logarithm after the "
                               "all-reduce.", "losses", _log_too_early),
        _slip("sign", "The losses have the wrong sign: log Σ exp(z) − z_target.", "losses",
              lambda case, r: -_right_losses(case, r)),
        _slip("mean", "The losses are averaged: return one loss for each row, (B,).", "losses",
              lambda case, r: _right_losses(case, r).mean().expand(len(case.inputs[r]["targets"]))),
        _slip("incoming gradient lost", "The losses are right; dlogits do not depend on the losses' gradient: multiply by "
                                        "dloss_B, row by row.", "dlogits",
              lambda case, r: _less_hot(case, r, _hot(case, r))),
        _slip("one-hot lost", "The losses are right; dlogits lack the −1 at the target.", "dlogits",
              lambda case, r: _dlogits(case, r, 0.0)),
        *(_slip("one-hot everywhere", _HOT, "dlogits", partial(_hot_everywhere, of_foreign))
          for of_foreign in WRONG_COLUMNS),
        _slip("local softmax in backward", "The losses are right, dlogits are not: the softmax of your columns is "
                                           "divided by the sum over all ranks.", "dlogits", _own_softmax),
        _slip("one-hot not scaled", "The losses are right; in dlogits the −1 at the target is not multiplied by dloss_B: "
                                    "subtract first, then multiply.", "dlogits", _hot_unscaled),
        _slip("sign of dlogits", "The losses are right, dlogits have the wrong sign: softmax minus one-hot.", "dlogits",
              lambda case, r: -_dlogits(case, r, _hot(case, r))),
        _slip("divided by rows", "The losses are right, dlogits are divided by the number of rows: no mean was taken here, "
                                 "and dloss_B has all that comes later.", "dlogits",
              lambda case, r: _dlogits(case, r, _hot(case, r)) / len(case.inputs[r]["targets"])),
        _slip("dlogits times n", "The losses are right, dlogits are n times too large: each rank's columns are its own, so "
                                 "nothing is summed in backward.", "dlogits",
              lambda case, r: _dlogits(case, r, _hot(case, r)) * case.group_size(r)),
        first_wrong_slip("input changed", "The results are right, but the logits were changed in place: somebody else may "
                                          "need them.", "inputs left as they were", lambda case, r, right: False),
    ),
)
