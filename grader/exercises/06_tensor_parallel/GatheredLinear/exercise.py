"""The lecture's split linear layer: every rank computes some outputs, an all-gather makes them whole, and back again."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from grader.exercises.shared.cases import each_rank, group_case, ranks, total
from grader.exercises.shared.split_inputs import in_dtype_of, in_float64, numbers
from grader.exercises.technique.splitting import TOLERANCE
from grader.judging.exercise import Case, Draw, Exercise, Slip
from utils.models.shards import piece

SIDE_BY_SIDE = partial(torch.cat, dim=-1)


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, rows: int, n_in: int, each: int, dtype: str = "float64") -> tuple[dict[str, Any], ...]:
        x, w, c = (numbers(draw, *shape, dtype=dtype) for shape in ((rows, n_in), (n * each, n_in), (rows, n * each)))
        return tuple({"x": x, "w": piece(w, r, n), "c": c} for r in range(n))

    sizes = [(1, 2, 3, 4, "float64"), (2, 3, 7, draw.integer(2, 5), "float64"), (3, 2, 5, 3, "float32"),
             (4, 3, 9, 2, "float64"), (2, 2, 6, 3, "bfloat16")]
    if grading:
        sizes.append((5, 2, 7, 1, "float64"))
    cases = [Case(f"{ranks(n)}, W {n * each}×{n_in}, {dtype}", inputs(n, rows, n_in, each, dtype))
             for n, rows, n_in, each, dtype in sizes]
    return [*cases, group_case(lambda n: inputs(n, 2, 5, 2), "W with 5 columns")]


def _layer(case: Case, rank: int, join: Callable[[list[Tensor]], Tensor] = SIDE_BY_SIDE,
           sum_dx: Callable[[list[Tensor]], Tensor] = sum) -> dict[str, Tensor]:
    """y, dx and dW of one rank. join: from each rank's outputs to y; sum_dx: from what each rank contributes to dx."""
    inputs, weights = in_float64(case.inputs[rank]), in_float64(case.peers_inputs(rank, "w"))
    y = join([inputs["x"] @ w.T for w in weights])
    dy = inputs["c"] * (1 - torch.tanh(y) ** 2)
    dys = dy.tensor_split(len(weights), -1)
    dx = sum_dx([dy_part @ w for dy_part, w in zip(dys, weights, strict=True)])
    return in_dtype_of({"y": y, "dx": dx, "dW": dys[case.group_rank(rank)].T @ inputs["x"]}, case.inputs[rank]["x"])


def _parts(case: Case, rank: int) -> list[Tensor]:
    """Each rank's outputs."""
    return [in_dtype_of(in_float64(case.inputs[rank])["x"] @ w.T, case.inputs[rank]["x"])
            for w in in_float64(case.peers_inputs(rank, "w"))]


def _without_gradients(y: Tensor) -> dict[str, Any]:
    """Nothing comes back through a y of another shape."""
    return {"y": y, "dx": None, "dW": None}


def _own_dx(case: Case, rank: int, right: list[Any]) -> Tensor:
    """What this rank's columns of dy contribute."""
    return _layer(case, rank, sum_dx=lambda dxs: dxs[case.group_rank(rank)])["dx"]


def _dx_of_first(case: Case, rank: int, right: list[Any]) -> Tensor:
    """dx, where every rank multiplies the first rank's columns of dy with its own rows of W."""
    inputs, weights = in_float64(case.inputs[rank]), in_float64(case.peers_inputs(rank, "w"))
    y = inputs["x"] @ weights[0].T
    dy = piece(inputs["c"], 0, len(weights), 1) * (1 - torch.tanh(y) ** 2)
    return in_dtype_of(sum(dy @ w for w in weights), case.inputs[rank]["x"])


def _group_dws(case: Case, rank: int, right: list[Any]) -> list[Tensor]:
    """dW of each member, which is of its columns of dy."""
    return [right[member]["dW"] for member in case.members(rank)]


EXERCISE = Exercise(
    title="Gather the outputs",
    parameters=("x_BI", "w_PI", "group"),
    forbidden=("torch.distributed.tensor",),
    trains=True,  # as what is forbidden takes as long to import
    make_cases=_cases,
    oracle=each_rank(_layer),
    tolerance=TOLERANCE,
    points={"values": 4, "technique": 4},
    slips=(
        Slip("gathered by rows", "The parts were gathered one below the other and read as rows of y: they stand side by "
                                 "side, so join them along the last dim.",
             lambda case, r, right: _layer(case, r, lambda parts: torch.cat(parts).view(len(parts[0]), -1))),
        Slip("below one another", "The parts of y lie one below the other, (n·B, P): they stand side by side, so join them "
                                  "along the last dim.",
             lambda case, r, right: _without_gradients(torch.cat(_parts(case, r))), shows=lambda case: case.world_size > 1),
        Slip("last rank's part", "All parts of y are those of the last rank: the list holds one buffer n times. Make a new "
                                 "tensor for each rank.",
             lambda case, r, right: _layer(case, r, lambda parts: torch.cat([parts[-1]] * len(parts), -1))),
        Slip("interleaved", "The columns of y are shuffled like cards: rank r's P columns stay together, those of rank 0 "
                            "first.",
             lambda case, r, right: _layer(case, r, lambda parts: torch.stack(parts, -1).flatten(-2))),
        Slip("own part", "y holds this rank's outputs only: gather those of all ranks.",
             lambda case, r, right: _without_gradients(_parts(case, r)[case.group_rank(r)]),
             shows=lambda case: case.world_size > 1),
        Slip("dx not summed", "y is right, but dx is what this rank's rows of W contribute: x went into every rank's part, "
                              "so its gradient is a sum over ranks.",
             lambda case, r, right: right[r] | {"dx": _own_dx(case, r, right)}),
        Slip("dx averaged", "dx is n times too small: it is the sum over ranks, not the mean; all ranks have one loss.",
             lambda case, r, right: right[r] | {"dx": right[r]["dx"] / case.group_size(r)}),
        Slip("dx times n", "dx is n times too large, dW is right: dx was summed over ranks twice, or multiplied by n "
                           "as well. One all-reduce of dy_p W_p is the whole sum.",
             lambda case, r, right: right[r] | {"dx": right[r]["dx"] * case.group_size(r)}),
        *(Slip("dy summed", "The gradients are n times too large: dy is the same whole on every rank already, so nothing of "
                          "it is to be summed; take your own columns.",
               lambda case, r, right, of=of: right[r] | {
                   "dx": of(case, r, right) * case.group_size(r), "dW": right[r]["dW"] * case.group_size(r)})
          for of in (lambda case, r, right: right[r]["dx"], _own_dx)),
        Slip("dW summed", "dW was summed over ranks, but each rank's rows are different weights: only dx is a sum.",
             lambda case, r, right: right[r] | {"dW": total(_group_dws(case, r, right))}),
        Slip("dW averaged", "dW is n times too small: these rows of W are this rank's alone, so dy_pᵀ x is all there is.",
             lambda case, r, right: right[r] | {"dW": right[r]["dW"] / case.group_size(r)}),
        *(Slip("first columns", "Every rank uses the first columns of dy: rank r's are dy[:, r·P : (r+1)·P].",
               lambda case, r, right, of=of: right[r] | {"dx": of(case, r, right), "dW": _group_dws(case, r, right)[0]})
          for of in (lambda case, r, right: right[r]["dx"], _dx_of_first)),
        *(Slip("kept on the class", "backward computes with what a later call of forward kept: x and w belong to one call, "
               "so keep them in its ctx (ctx.save_for_backward), not on the class or in a global.",
               lambda case, r, right, x=x, w=w: right[r] | {"dx": right[r]["dx"] * w, "dW": right[r]["dW"] * x})
          for x, w in ((-1, 2), (-1, 1), (1, 2))),
    ),
)
