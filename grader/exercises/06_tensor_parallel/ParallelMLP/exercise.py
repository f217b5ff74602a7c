"""The MLP of a transformer in pieces: column, activation, row; one all-reduce forward, one backward."""

from collections.abc import Callable, Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from grader.calling.sealing import Cut
from grader.evidence.case import SEALED
from grader.exercises.shared.cases import group_case
from grader.exercises.shared.linears import Parts, changed, result, times_n
from grader.exercises.shared.sequence_inputs import own_piece
from grader.exercises.shared.split_inputs import first_wrong_slip, in_dtype_of, in_float64, numbers, or_refused, whole_linear
from grader.exercises.technique.splitting import TOLERANCE
from grader.judging.compare import ANYTHING
from grader.judging.exercise import Case, Draw, Exercise, Slip

Activation = Callable[[Tensor, Tensor | None], Tensor]


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


def _gated(case: Case) -> bool:
    return case.inputs[0]["gate"] is not None


def _weights(case: Case, rank: int) -> dict[str, Tensor]:
    """Name → the whole weight or bias, in float64."""
    inputs = in_float64(case.inputs[rank])
    return {f"{name}.{kind}": tensor for name in ("up", "gate", "down") if inputs[name] is not None
            for kind, tensor in inputs[name].items() if tensor is not None}


def _own(case: Case, rank: int, whole: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same of this rank: columns of down, rows of the others, down's bias whole."""
    return {name: tensor if name == "down.bias" else own_piece(case, rank, tensor, 1 if name == "down.weight" else 0)
            for name, tensor in whole.items()}


def _usual(up: Tensor, gate: Tensor | None) -> Tensor:
    return F.gelu(up) if gate is None else F.silu(gate) * up


def _mlp(case: Case, rank: int, weights: dict[str, Tensor], activation: Activation = _usual) -> dict[str, Any]:
    """One process with these weights: y, what comes back to x through up and through gate ("dxs"), and the gradients."""
    inputs = in_float64(case.inputs[rank])
    leaves = {name: weight.clone().requires_grad_() for name, weight in weights.items()}
    xs = {name: inputs["x"].clone().requires_grad_() for name in ("up", "gate") if f"{name}.weight" in weights}
    inner = {name: F.linear(x, leaves[f"{name}.weight"], leaves.get(f"{name}.bias")) for name, x in xs.items()}
    y = F.linear(activation(inner["up"], inner.get("gate")), leaves["down.weight"], leaves.get("down.bias"))
    y.backward(inputs["dy"])
    return {"y": y.detach(), "dxs": {name: x.grad for name, x in xs.items()},
            "gradients": {name: leaf.grad for name, leaf in leaves.items()}}


def _right(case: Case, rank: int) -> dict[str, Any]:
    plain = _mlp(case, rank, _weights(case, rank))
    return result(case, rank, plain["y"], sum(plain["dxs"].values()), _own(case, rank, plain["gradients"]))


def _own_dxs(*names: str) -> Callable[[Case, int, Parts], Parts]:
    """Through these layers only what this rank's part contributes comes back."""

    def change(case: Case, rank: int, right: Parts) -> Parts:
        whole = _weights(case, rank)
        own = _mlp(case, rank, _own(case, rank, whole))["dxs"]
        dxs = _mlp(case, rank, whole)["dxs"] | {name: dx for name, dx in own.items() if name in names}
        return {"dx": sum(dxs.values())}

    return change


def _twice_through(name: str) -> Callable[[Case, int, Parts], Parts]:
    """What comes back through this layer is summed over ranks twice."""

    def change(case: Case, rank: int, right: Parts) -> Parts:
        dxs = _mlp(case, rank, _weights(case, rank))["dxs"]
        return {"dx": sum(dx * (case.group_size(rank) if layer == name else 1) for layer, dx in dxs.items())}

    return change


def _own_y(case: Case, rank: int, right: Tensor) -> Tensor:
    """This rank's term of y, and the bias."""
    return in_dtype_of(_mlp(case, rank, _own(case, rank, _weights(case, rank)))["y"], right)


def _bias_n_times(case: Case, rank: int, right: Parts) -> Parts:
    weights = _weights(case, rank)
    if "down.bias" not in weights:
        return {}
    weights["down.bias"] = weights["down.bias"] * case.group_size(rank)
    return {"y": _mlp(case, rank, weights)["y"], "down.bias": ANYTHING}


def _activated(id: str, hint: str, activation: Activation, shows: Callable[[Case], bool] = _gated) -> Slip:
    """y as another activation makes it."""
    return first_wrong_slip(id, hint, "y", lambda case, rank, right: in_dtype_of(
        _mlp(case, rank, _weights(case, rank), activation)["y"], right), shows)


_ONE_OF_TWO = ("x reaches one of up and gate without f, so that share of dx is not summed: put x through f once, and give "
               "the result to both.")
_TWICE = "dx is n times too large where it is summed twice: x goes through one f, here or in the layers (copy=False there)."
_OTHER = "With a gate the activation is SiLU, not the sigmoid and not GELU."

EXERCISE = Exercise(
    title="An MLP with one all-reduce each way",
    parameters=("up", "down", "group", "gate"),
    forbidden=("torch.distributed.tensor",),
    make_cases=_cases,
    oracle=or_refused(_right),
    measured=True,
    trains=True,
    tolerance=TOLERANCE,
    slips=(
        _activated("no gate", "With a gate the inner elements are SiLU(gate(x))·up(x): yours ignore it.",
                   lambda up, gate: F.gelu(up) + 0 * gate),
        changed("f missing", "y is right, but dx is what this rank's part contributes: x goes through f before up and gate.",
                _own_dxs("up", "gate")),
        changed("f on one of two", _ONE_OF_TWO, _own_dxs("up"), shows=_gated),
        changed("f on one of two", _ONE_OF_TWO, _own_dxs("gate"), shows=_gated),
        first_wrong_slip("not summed", "y is what this rank's inner elements give: down is row-parallel, so its results are "
                                       "terms, which g sums over ranks.", "y", _own_y),
        times_n("summed both ways", "y is right; dx and all weights' gradients are n times too large, down's bias's is not: "
                                    "backward sums dy at the end of the MLP, as torch's differentiable all_reduce does. Use "
                                    "your g, which hands dy on.",
                "dx", "up.weight", "up.bias", "gate.weight", "gate.bias", "down.weight"),
        times_n("dx times n", _TWICE, "dx"),
        *(changed("dx times n", _TWICE, _twice_through(name)) for name in ("up", "gate")),
        changed("bias n times", "The bias of down is in y n times: add it once, after g.", _bias_n_times),
        _activated("gate and up exchanged", "SiLU is for the gate: SiLU(gate(x))·up(x).",
                   lambda up, gate: F.silu(up) * gate),
        _activated("other activation", _OTHER, lambda up, gate: F.sigmoid(gate) * up),
        _activated("other activation", _OTHER, lambda up, gate: F.gelu(gate) * up),
        _activated("gate added", "The gate is a factor: SiLU(gate(x))·up(x), not a term.",
                   lambda up, gate: F.silu(gate) + up),
        _activated("GELU on up too", "With a gate, up(x) itself is multiplied: the only activation is the gate's SiLU.",
                   lambda up, gate: F.silu(gate) * F.gelu(up)),
        *(_activated("not GELU", "Without a gate the activation is GELU: yours is another one.",
                     lambda up, gate, other=other: other(up), shows=lambda case: not _gated(case))
          for other in (F.relu, F.silu, F.tanh, F.sigmoid)),
        _activated("GELU by tanh", "The GELU is the exact one, F.gelu(x), not its approximation by tanh.",
                   lambda up, gate: F.gelu(up, approximate="tanh"), shows=lambda case: not _gated(case)),
        _activated("no activation", "Between up and down stands GELU, or the gate's SiLU: without it two layers are one.",
                   lambda up, gate: up if gate is None else gate * up, shows=lambda case: True),
    ),
)
