"""The MLP of a transformer in pieces: column, activation, row; one all-reduce forward, one backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from grader.calling.sharding import BACKWARD, FORWARD
from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.shared.linears import as_, flat, times_n
from grader.exercises.shared.split_demands import TOLERANCE, calls_are, no_error, share_only
from grader.exercises.shared.split_inputs import REFUSED, in_dtype_of, in_float64, numbers, piece, whole_linear
from grader.judging.compare import same
from grader.judging.demands import group_size, only_calls, results_waited
from grader.judging.exercise import Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, raised, unwaited, wrong_ranks

LINEARS = ("up", "gate", "down")
Activation = Callable[[Tensor, Tensor | None], Tensor]


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, rows: Sequence[int], dim: int, each: int, gated: bool, dtype: str = "float64", bias: bool = True,
               extra: int = 0) -> list[dict[str, Any]]:
        inner = n * each + extra
        layers = {"up": whole_linear(draw, inner, dim, bias, dtype), "down": whole_linear(draw, dim, inner, bias, dtype),
                  "gate": whole_linear(draw, inner, dim, bias, dtype) if gated else None}
        tensors = {name: numbers(draw, *rows, dim, dtype=dtype) for name in ("x", "dy")}
        return [{**layers, **tensors, "refused": [inner, n] if extra else None, "options": {}} for _ in range(n)]

    made = [("1 rank, GELU", inputs(1, (2,), 3, 4, False)),
            ("2 ranks, SwiGLU", inputs(2, (2,), 5, draw.integer(2, 4), True)),
            ("4 ranks, GELU, x with 3 dims", inputs(4, (2, 3), 3, 2, False)),
            ("3 ranks, SwiGLU, float32, no bias", inputs(3, (3,), 5, 2, True, "float32", False)),
            ("2 ranks, GELU, bfloat16", inputs(2, (2,), 3, 3, False, "bfloat16")),
            ("4 ranks, sizes do not divide", inputs(4, (2,), 3, 2, False, extra=1))]
    if grading:
        made += [(f"{ranks(5)}, SwiGLU", inputs(5, (2,), 3, 1, True)), ("4 ranks, SwiGLU", inputs(4, (1, 2), 4, 3, True))]
    return [*(Case(name, tuple(one)) for name, one in made), group_case(lambda n: inputs(n, (2,), 3, 2, True), "SwiGLU")]


def _activation(up: Tensor, gate: Tensor | None) -> Tensor:
    return F.gelu(up) if gate is None else F.silu(gate) * up


def _result(case: Case, rank: int, activation: Activation = _activation, own: Sequence[str] = (), bias_times: int = 1,
            gated: bool = True) -> dict[str, Any]:
    """One process, and of its gradients this rank's parts. Wrong ways: another activation; the share of dx that came back
    through the layers in `own` not summed over ranks; down's bias several times; no gate."""
    inputs, n, r = in_float64(case.inputs[rank]), len(case.members(rank)), case.group_rank(rank)
    layers = {name: inputs[name] for name in LINEARS if inputs[name] is not None and (gated or name != "gate")}
    leaves = {f"{name}.{kind}": tensor.requires_grad_() for name, layer in layers.items()
              for kind, tensor in layer.items() if tensor is not None}
    xs = {name: inputs["x"].clone().requires_grad_() for name in layers if name != "down"}
    outs = {name: F.linear(x, leaves[f"{name}.weight"], leaves.get(f"{name}.bias")) for name, x in xs.items()}
    for out in outs.values():
        out.retain_grad()
    y = F.linear(activation(outs["up"], outs.get("gate")), leaves["down.weight"])
    if "down.bias" in leaves:
        y = y + bias_times * leaves["down.bias"]
    y.backward(inputs["dy"])
    dxs = [piece(outs[name].grad, -1, n, r) @ piece(leaves[f"{name}.weight"], 0, n, r) if name in own else x.grad
           for name, x in xs.items()]
    gradients = {name: one.grad if name == "down.bias" else piece(one.grad, 1 if name == "down.weight" else 0, n, r)
                 for name, one in leaves.items()}
    return in_dtype_of({"y": y.detach(), "dx": sum(dxs).detach(), "gradients": gradients}, case.inputs[rank]["x"])


def _oracle(case: Case, rank: int) -> dict[str, Any]:
    return REFUSED if case.inputs[rank]["refused"] else _result(case, rank)


def _as(*parts: str, **how: Any) -> Callable[[Look], bool]:
    """These parts as another way gives them, the rest right."""
    return as_(lambda look, r: flat(_result(look.case, r, **how)), *parts)


def _all_as(**how: Any) -> Callable[[Look], bool]:
    """y as another activation gives it."""

    def test(look: Look, rank: int, found: Any, expected: Any) -> bool:
        instead = _result(look.case, rank, **how)["y"]
        return same(found["y"], instead, TOLERANCE) and not same(instead, expected["y"], TOLERANCE)

    return wrong_ranks(test)


def _gated_only(matches: Callable[[Look], bool]) -> Callable[[Look], bool]:
    return lambda look: look.case.inputs[0]["gate"] is not None and matches(look)


def _no_gradient(look: Look, rank: int, found: Any, expected: Any) -> bool:
    return any(found["gradients"].get(name) is None for name in expected["gradients"])


def _first(part: str) -> Callable[[Look], bool]:
    """y, dx or "gradients" is the first part that is wrong on any rank."""

    def matches(look: Look) -> bool:
        wrong = [one for one in ("y", "dx", "gradients") if any(
            not same(found[one], expected[one], TOLERANCE) for _, found, expected in look.pairs())]
        return wrong[:1] == [part]

    return matches


def _share(look: Look, rank: int) -> int:
    """Numbers in this rank's parts; down's bias is whole."""
    inputs, n = look.case.inputs[rank], group_size(look, rank)
    counts = {(name, kind): one.numel() for name in LINEARS if inputs[name] for kind, one in inputs[name].items()
              if one is not None}
    return sum(count if key == ("down", "bias") else count // n for key, count in counts.items())


def _wanted(look: Look, rank: int) -> dict[str, int]:
    return {"all_reduce": int(not look.case.inputs[rank]["refused"])}


_TANH = "The GELU is the exact one, F.gelu(x), not its approximation by tanh."
_NAMES = ("A parameter is not there, or has no gradient: the parts are called up, down and gate, split layers with weight "
          "and bias.")

EXERCISE = Exercise(
    title="An MLP with one all-reduce",
    parameters=("up", "down", "group", "gate"),
    make_cases=_cases,
    oracle=each_rank(_oracle),
    tolerance=TOLERANCE,
    technique=Technique(
        demands=(
        only_calls("all_reduce", hint="Nothing is gathered between the two layers: the activation works on each number "
                                      "alone, so each rank's part of the inner numbers goes straight into its part of "
                                      "down."),
        calls_are(FORWARD, _wanted, "The result is right, but forward needs one all-reduce only, g's at the end.",
                  "forward calls"),
        calls_are(BACKWARD, _wanted, "The result is right, but backward needs one all-reduce only: let up and gate share "
                                     "one f.", "backward calls"),
        *share_only(_share, lambda look: look.case.inputs[0]["x"].itemsize),
        results_waited(),
    ),
        symptoms=(
        group_ignored("The ranks of other groups are touched: give group to every part."),
        unwaited(),
        no_error("Inner features"),
        Symptom("no gate", "With a gate the inner numbers are SiLU(gate(x))·up(x): yours ignore it.", _gated_only(
            _all_as(gated=False))),
        Symptom("no gradient", _NAMES, wrong_ranks(_no_gradient)),
        Symptom("f missing", "y is right, but dx is what this rank's part contributes: x goes through f before up and gate.",
                _as("dx", own=("up", "gate"))),
        Symptom("f on one of two", "x reaches one of up and gate without f, so that share of dx is not summed: put x "
                                   "through f once, and give the result to both.",
                lambda look: any(_as("dx", own=(one,))(look) for one in ("up", "gate"))),
        Symptom("dx times n", "dx is n times too large: it is summed twice.", times_n("dx")),
        Symptom("bias n times", "The bias of down is in y n times: add it once, after g.", as_(
            lambda look, r: flat(_result(look.case, r, bias_times=group_size(look, r))), "y", whatever=("down.bias",))),
        Symptom("gate and up exchanged", "SiLU is for the gate: SiLU(gate(x))·up(x).", _gated_only(
            _all_as(activation=lambda up, gate: F.silu(up) * gate))),
        Symptom("other activation", "With a gate the activation is SiLU, not the sigmoid and not GELU.", _gated_only(
            lambda look: any(_all_as(activation=lambda up, gate, act=act: act(gate) * up)(look)
                             for act in (F.sigmoid, F.gelu)))),
        Symptom("GELU by tanh", _TANH, _all_as(activation=lambda up, gate: (
            F.gelu(up, approximate="tanh") if gate is None else F.silu(gate) * up))),
        Symptom("no activation", "Between up and down stands GELU, or the gate's SiLU: without it two layers are one.",
                _all_as(activation=lambda up, gate: up if gate is None else gate * up)),
        raised("shape", "The sizes do not fit: up and gate keep rows (column parallel), down keeps columns (row parallel).",
               "shapes"),
        Symptom("wrong y", "y is wrong.", _first("y")),
        Symptom("wrong dx", "y is right, dx is not.", _first("dx")),
        Symptom("wrong gradients", "y and dx are right, a parameter's gradient is not.", _first("gradients")),
    ),
    ),
)
