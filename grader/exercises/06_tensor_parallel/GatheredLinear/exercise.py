"""The lecture's split linear layer: every rank computes some outputs, an all-gather makes them whole, and back again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from grader.calling.sharding import BACKWARD, FORWARD
from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.shared.split_demands import TOLERANCE, calls_are, sent_at_most
from grader.exercises.shared.split_inputs import in_dtype_of, in_float64, numbers, piece
from grader.exercises.technique.sharding import first_wrong
from grader.judging.compare import same
from grader.judging.demands import group_size, only_calls, results_waited
from grader.judging.exercise import Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, raised, unwaited, wrong_ranks
from utils.costs.formulas import bytes_sent_per_rank


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, rows: int, n_in: int, each: int, dtype: str = "float64") -> list[dict[str, Any]]:
        x, w, c = (numbers(draw, *shape, dtype=dtype) for shape in ((rows, n_in), (n * each, n_in), (rows, n * each)))
        return [{"x": x, "w": piece(w, 0, n, r), "c": c} for r in range(n)]

    sizes = [(1, 2, 3, 4, "float64"), (2, 3, 7, draw.integer(2, 5), "float64"), (3, 2, 5, 3, "float32"),
             (4, 3, 9, 2, "float64"), (2, 2, 6, 3, "bfloat16")] + [(5, 2, 7, 1, "float64")] * grading
    cases = [Case(f"{ranks(n)}, W {n * each}×{n_in}, {dtype}", tuple(inputs(n, rows, n_in, each, dtype)))
             for n, rows, n_in, each, dtype in sizes]
    return [*cases, group_case(lambda n: inputs(n, 2, 5, 2), "W with 5 columns")]


def _parts(case: Case, rank: int, *, join: Callable[[list[Tensor]], Tensor] = lambda parts: torch.cat(parts, -1),
           own_dx: bool = False, dy_times: int = 1, columns_of: int | None = None,
           w_summed: bool = False) -> dict[str, Tensor]:
    """y, dx and dW of one rank. Wrong ways: parts joined otherwise; its own dx alone; dy times a number; the columns of
    another member; dW summed over the ranks."""
    inputs, r = in_float64(case.inputs[rank]), case.group_rank(rank)
    weights = in_float64(case.peers_inputs(rank, "w"))
    y = join([inputs["x"] @ w.T for w in weights])
    dy = inputs["c"] * (1 - torch.tanh(y) ** 2) * dy_times
    dys = dy.tensor_split(len(weights), -1)
    dxs = [dy_part @ w for dy_part, w in zip(dys, weights, strict=True)]
    dws = [dy_part.T @ inputs["x"] for dy_part in dys]
    dw = sum(dws) if w_summed else dws[r if columns_of is None else columns_of]
    return in_dtype_of({"y": y, "dx": dxs[r] if own_dx else sum(dxs), "dW": dw}, case.inputs[rank]["x"])


def _as(**other: Any) -> Callable[[Look], bool]:
    """All of a wrong rank's result is what another way gives, and that is not the right one."""

    def test(look: Look, rank: int, found: Any, expected: Any) -> bool:
        instead = _parts(look.case, rank, **{k: v(look, rank) if k == "dy_times" else v for k, v in other.items()})
        return same(found, instead, TOLERANCE) and not same(instead, expected, TOLERANCE)

    return wrong_ranks(test)


def _gradient_as(part: str, other: Callable[[Look, int], dict[str, Tensor]]) -> Callable[[Look], bool]:
    """y is right, and one of the gradients is what another way gives."""

    def test(look: Look, rank: int, found: Any, expected: Any) -> bool:
        instead = other(look, rank)[part]
        return (same(found["y"], expected["y"], TOLERANCE) and same(found[part], instead, TOLERANCE)
                and not same(instead, expected[part], TOLERANCE))

    return wrong_ranks(test)


def _own_part(look: Look, rank: int, found: Any, expected: Any) -> bool:
    return found["y"].shape[-1] * group_size(look, rank) == expected["y"].shape[-1]


def _other_order(look: Look) -> bool:
    """Every y has the right numbers, some of them at another place."""
    found = [(one["y"], expected["y"]) for _, one, expected in look.pairs()]
    return any(not same(*pair, TOLERANCE) for pair in found) and all(
        same(y.sort().values, right.sort().values, TOLERANCE) for y, right in found)


def _first(part: str) -> Callable[[Look], bool]:
    return lambda look: part == first_wrong(look, ("y", "dx", "dW"))


def _gathered(look: Look, rank: int) -> float:
    """The bytes of y, all-gathered."""
    return bytes_sent_per_rank("all_gather", look.right[rank]["y"].nbytes, group_size(look, rank))


def _reduced(look: Look, rank: int) -> float:
    """The bytes of dx, all-reduced."""
    return bytes_sent_per_rank("all_reduce", look.case.inputs[rank]["x"].nbytes, group_size(look, rank))


_SHAPES = ("The sizes do not fit. Of dy (B, O) this rank needs its own P columns: dx = dy_p W_p, and dW_p = dy_pᵀ x has the "
           "shape of w_PI.")

EXERCISE = Exercise(
    title="Gather the outputs",
    parameters=("x_BI", "w_PI", "group"),
    make_cases=_cases,
    oracle=each_rank(_parts),
    tolerance=TOLERANCE,
    points={"values": 4, "technique": 4},
    technique=Technique(
        demands=(
        only_calls("all_gather", "all_reduce", hint=(
            "All-gather the outputs in forward, all-reduce dx in backward: those two are all the communication.")),
        sent_at_most(FORWARD, _gathered, "forward sends parts of y, no weights",
                     "The result is right, but forward sends more than the parts of y: were whole weights gathered? A rank "
                     "must never have more of W than its own rows.", "weights gathered"),
        calls_are(FORWARD, {"all_gather": 1}, "One all-gather in forward is enough.", "forward calls"),
        calls_are(BACKWARD, {"all_reduce": 1}, "One all-reduce in backward is enough: only dx is a sum over ranks.",
                  "backward calls"),
        sent_at_most(BACKWARD, _reduced, "backward sends dx once", "Backward sends more than one all-reduce of dx.",
                     "too many bytes"),
        results_waited(),
    ),
        symptoms=(
        group_ignored("The ranks of other groups are touched: pass group=group to every call."),
        unwaited(),
        Symptom("gathered by rows", "The parts were gathered one below the other and read as rows of y: they stand side by "
                "side, so join them along the last dim.", _as(join=lambda parts: torch.cat(parts).view(len(parts[0]), -1))),
        Symptom("interleaved", "The columns of y are shuffled like cards: rank r's P columns stay together, those of rank 0 "
                               "first.", _as(join=lambda parts: torch.stack(parts, -1).flatten(-2))),
        Symptom("wrong order", "The columns of y are not in the ranks' order: rank 0's come first on every rank.",
                _other_order),
        Symptom("own part", "y holds this rank's outputs only: gather those of all ranks.", wrong_ranks(_own_part)),
        Symptom("dx not summed", "y is right, but dx is what this rank's rows of W contribute: x went into every rank's "
                                 "part, so its gradient is a sum over ranks.",
                _gradient_as("dx", lambda look, r: _parts(look.case, r, own_dx=True))),
        Symptom("dx averaged", "dx is n times too small: it is the sum over ranks, not the mean; all ranks have one loss.",
                _gradient_as("dx", lambda look, r: {"dx": look.right[r]["dx"] / group_size(look, r)})),
        Symptom("dy summed", "The gradients are n times too large: dy is the same whole on every rank already, so nothing "
                             "of it is to be summed; take your own columns.",
                _gradient_as("dW", lambda look, r: _parts(look.case, r, dy_times=group_size(look, r)))),
        Symptom("dW summed", "dW was summed over ranks, but each rank's rows are different weights: only dx is a sum.",
                _gradient_as("dW", lambda look, r: _parts(look.case, r, w_summed=True))),
        Symptom("first columns", "Every rank uses the first columns of dy: rank r's are dy[:, r·P : (r+1)·P].",
                _gradient_as("dW", lambda look, r: _parts(look.case, r, columns_of=0))),
        raised("invalid gradient", _SHAPES, "shapes"),
        raised("shape", _SHAPES, "shapes"),
        raised("number of gradients", "backward returns one value for each argument of forward after ctx: dx, dW, None.",
               "too few gradients"),
        Symptom("wrong output", "y is wrong: each rank's part is x W_pᵀ.", _first("y")),
        Symptom("wrong dx", "y is right, dx is not: the sum over ranks of dy_p W_p.", _first("dx")),
        Symptom("wrong dW", "y and dx are right, dW is not: dy_pᵀ x, with this rank's columns of dy.", _first("dW")),
    ),
    ),
)
