"""The MLP of a transformer in pieces: column, activation, row; one all-reduce forward, one backward."""

from collections.abc import Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from grader.calling.sealing import Cut
from grader.evidence.case import SEALED
from grader.exercises.shared.cases import group_case
from grader.exercises.shared.linears import result
from grader.exercises.shared.sequence_inputs import own_piece
from grader.exercises.shared.split_inputs import in_float64, numbers, or_refused, whole_linear
from grader.exercises.technique.splitting import TOLERANCE
from grader.judging.exercise import Case, Draw, Exercise


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, rows: Sequence[int], dim: int, each: int, gated: bool, dtype: str = "float64", bias: bool = True,
               extra: int = 0) -> tuple[dict[str, Any], ...]:
        inner = n * each + extra
        layers = {"up": whole_linear(draw, inner, dim, bias, dtype), "down": whole_linear(draw, dim, inner, bias, dtype),
                  "gate": whole_linear(draw, inner, dim, bias, dtype) if gated else None}
        tensors = {name: numbers(draw, *rows, dim, dtype=dtype) for name in ("x", "dy")}
        return ({**layers, **tensors, "refused": [inner, n] if extra else None},) * n

    cases = [Case("1 rank, GELU", inputs(1, (2,), 3, 4, False)),
             Case("2 ranks, SwiGLU", inputs(2, (2,), 5, draw.integer(2, 4), True)),
             Case("4 ranks, GELU, x with 3 dims", inputs(4, (2, 3), 3, 2, False)),
             Case("3 ranks, SwiGLU, float32, no bias", inputs(3, (3,), 5, 2, True, "float32", False)),
             Case("2 ranks, GELU, bfloat16", inputs(2, (2,), 3, 3, False, "bfloat16")),
             Case("4 ranks, sizes do not divide", inputs(4, (2,), 3, 2, False, extra=1))]
    if grading:
        cases += [Case("5 ranks, SwiGLU", inputs(5, (2,), 3, 1, True)),
                  Case("4 ranks, SwiGLU", inputs(4, (1, 2), 4, 3, True)),
                  Case("4 ranks, SwiGLU, sealed", tuple(own | {SEALED: _cuts(4)} for own in inputs(4, (2,), 6, 8, True)))]
    return [*cases, group_case(lambda n: inputs(n, (2,), 3, 2, True), "SwiGLU")]


def _cuts(n: int) -> dict[str, Cut]:
    rows = {f"{name}.{part}": Cut((name, part), 0, n) for name in ("up", "gate") for part in ("weight", "bias")}
    return rows | {"down.weight": Cut(("down", "weight"), 1, n)}


def _right(case: Case, rank: int) -> dict[str, Any]:
    inputs = in_float64(case.inputs[rank])
    weights = {f"{name}.{kind}": tensor.requires_grad_() for name in ("up", "gate", "down") if inputs[name] is not None
               for kind, tensor in inputs[name].items() if tensor is not None}

    def linear(name: str, x: Tensor) -> Tensor:
        return F.linear(x, weights[f"{name}.weight"], weights.get(f"{name}.bias"))

    x = inputs["x"].requires_grad_()
    y = linear("down", F.gelu(linear("up", x)) if inputs["gate"] is None else F.silu(linear("gate", x)) * linear("up", x))
    y.backward(inputs["dy"])
    return result(case, rank, y.detach(), x.grad, {name: _own(case, rank, name, w.grad) for name, w in weights.items()})


def _own(case: Case, rank: int, name: str, whole: Tensor) -> Tensor:
    """This rank's part: columns of down, rows of the others, down's bias whole."""
    return whole if name == "down.bias" else own_piece(case, rank, whole, 1 if name == "down.weight" else 0)


EXERCISE = Exercise(
    title="An MLP with one all-reduce each way",
    parameters=("up", "down", "group", "gate"),
    forbidden=("torch.distributed.tensor",),
    make_cases=_cases,
    oracle=or_refused(_right),
    measured=True,
    trains=True,
    tolerance=TOLERANCE,
)
