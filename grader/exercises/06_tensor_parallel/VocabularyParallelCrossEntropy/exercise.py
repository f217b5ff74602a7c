"""VocabularyParallelCrossEntropy (challenge): the loss of logits whose columns are split, and that are never gathered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from grader.calling.splitting_gpt import BACKWARD
from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.shared.own_parts import calls_in, only_all_reduce, wrong_in
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, group_size, not_far_more_bytes, results_waited
from grader.judging.exercise import Case, Demand, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, raised, unwaited
from utils.costs.formulas import bytes_sent_per_rank

TOLERANCE = 1e-5  # some in float32
PARTS = ("losses", "dlogits", "inputs left as they were")


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, rows: int, columns: int, dtype: str = "float64", shift: float = 0.0) -> list[dict[str, Any]]:
        kind = getattr(torch, dtype)
        whole = draw.tensor(rows, n * columns, dtype=torch.float64) / 17 + shift
        targets = torch.arange(rows) * draw.integer(1, 4) * max(1, columns - 1) % (n * columns)
        weights = draw.tensor(rows, dtype=torch.float64) / 20
        return [{"logits": part.to(kind).contiguous(), "targets": targets, "weights": weights.to(kind)}
                for part in whole.chunk(n, 1)]

    sizes = [(1, 4, 5, "float64", 0.0), (2, 7, 3, "float64", 900.0), (4, 9, 3, "float64", -900.0), (3, 5, 6, "float32", 0.0),
             (2, 6, 5, "bfloat16", 0.0)] + [(4, 3, 1, "float64", 0.0)] * grading
    cases = [Case(f"{ranks(n)}, {rows} rows, {columns} columns each, {dtype}{f', shifted by {shift:g}' if shift else ''}",
                  tuple(inputs(n, rows, columns, dtype, shift))) for n, rows, columns, dtype, shift in sizes]
    return [*cases, group_case(lambda n: inputs(n, 5, 4), "4 columns each")]


def _plain(case: Case, rank: int, local: bool = False, foreign: str = "", plain_backward: bool = False,
           onehot: bool = True) -> dict[str, Any]:
    """One process, in float64. Wrong ways: softmax over the rank's own columns; of a foreign target column 0, or
    column target % P, is taken on every rank ("zero", "modulo"); backward without the incoming gradient or the one-hot."""
    inputs, r = case.inputs[rank], case.group_rank(rank)
    parts = case.peers_inputs(rank, "logits")
    columns, dtype, targets = parts[0].shape[1], parts[0].dtype, inputs["targets"]
    whole = torch.cat([part.double() for part in parts], 1)
    own = slice(r * columns, (r + 1) * columns)
    log_sum = (whole[:, own] if local else whole).logsumexp(1)
    chosen = whole.gather(1, targets[:, None])[:, 0]
    if foreign:
        shifted = [targets - member * columns for member in range(len(parts))]
        at = [one % columns if foreign == "modulo" else one * ((one >= 0) & (one < columns)) for one in shifted]
        chosen = sum(part.double().gather(1, one[:, None])[:, 0] for part, one in zip(parts, at, strict=True))
    softmax = (whole - log_sum[:, None]).exp()[:, own]
    hot = torch.nn.functional.one_hot(targets, whole.shape[1])[:, own]
    if foreign:
        hot = torch.nn.functional.one_hot(at[r], columns)
    weights = 1.0 if plain_backward else inputs["weights"].double()[:, None]
    return {"losses": (log_sum - chosen).to(dtype), "dlogits": ((softmax - hot * onehot) * weights).to(dtype),
            "inputs left as they were": True}


def _row_bytes(look: Look, rank: int) -> int:
    return look.case.inputs[rank]["weights"].nbytes


def _sent(look: Look, rank: int) -> float:
    return bytes_sent_per_rank("all_reduce", 3 * _row_bytes(look, rank), group_size(look, rank))


def _sent_in_wider(look: Look, rank: int) -> float:
    """The same, where sums of a short type are kept in a longer one."""
    return _sent(look, rank) * max(1, 4 // look.case.inputs[rank]["logits"].itemsize)


def _silent_backward(look: Look) -> tuple[bool, str]:
    for rank in look.working:
        if calls := calls_in(look, rank, BACKWARD):
            return False, f"rank {rank} called {calls[0].op} in backward"
    return True, ""


def _when(part: str, **other: Any) -> Callable[[Look], bool]:
    return wrong_in(part, PARTS, lambda look, r, found: not other or same(
        found, _plain(look.case, r, **other)[part], TOLERANCE), TOLERANCE)


def _not_finite(look: Look, rank: int, found: Tensor) -> bool:
    return not bool(found.isfinite().all())


EXERCISE = Exercise(
    title="(c) Cross-entropy without gathered logits",
    parameters=("logits_BP", "targets_B", "group"),
    make_cases=_cases,
    oracle=each_rank(_plain),
    tolerance=TOLERANCE,
    optional=True,
    technique=Technique(
        demands=(
        only_all_reduce("The logits must never be gathered: a maximum, a sum and the target's logit for each row are all "
                        "that ranks must tell each other, by all-reduce."),
        not_far_more_bytes(_sent_in_wider, "Whole rows of logits are sent: all-reduce numbers of shape (B,) only."),
        Demand("sent in backward", "nothing sent in backward", "The result is right, but backward communicates: with the "
               "softmax of the own columns saved, each rank has all that it needs.", _silent_backward),
        bytes_sent(_sent_in_wider, "three all-reduces of (B,)", "The result is right, but more is sent than three numbers "
                                                                "a row."),
        results_waited(),
    ),
        symptoms=(
        raised("index", "A target lies outside the own columns: subtract the first own id, and take column 0 for foreign "
                        "targets.",
               "targets not shifted"),
        group_ignored("The ranks of other groups are touched: pass group to every call, and ask for the rank in the group."),
        unwaited(),
        raised("number of gradients", "backward returns one value for each argument of forward after ctx: dlogits, None, "
                                      "None.",
               "too few gradients"),
        Symptom("overflow", "exp of a large logit is infinite, and of very negative ones all 0: subtract each row's "
                            "maximum first, the largest over all ranks (ReduceOp.MAX).",
                wrong_in("losses", PARTS, _not_finite)),
        Symptom("local softmax", "The sum of exponentials is that of the own columns only: all-reduce it (and subtract one "
                                 "maximum everywhere).", _when("losses", local=True)),
        Symptom("target looked up everywhere", "Every rank adds a logit for every target, also for targets of other ranks: "
                                               "theirs must be 0 before the all-reduce.",
                lambda look: _when("losses", foreign="zero")(look)
                or _when("losses", foreign="modulo")(look)),
        Symptom("wrong losses", "The losses are wrong. Each is log Σ exp(z − m) − (z_target − m), with one maximum m a "
                                "row, the same on every rank.", _when("losses")),
        Symptom("incoming gradient lost", "The losses are right; dlogits do not depend on the losses' gradient: multiply by "
                                          "dloss_B, row by row.", _when("dlogits", plain_backward=True)),
        Symptom("one-hot lost", "The losses are right; dlogits lack the −1 at the target.", _when("dlogits", onehot=False)),
        Symptom("one-hot everywhere", "The losses are right; the −1 at the target is there on every rank: only the rank "
                                      "that has the target's column subtracts it.",
                lambda look: _when("dlogits", foreign="zero")(look)
                or _when("dlogits", foreign="modulo")(look)),
        Symptom("local softmax in backward", "The losses are right, dlogits are not: the softmax of the own columns is "
                                             "divided by the sum over all ranks.", _when("dlogits")),
        Symptom("input changed", "The results are right, but the logits were changed in place: somebody else may need them.",
                _when("inputs left as they were")),
    ),
    ),
)
