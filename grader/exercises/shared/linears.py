"""What the exercises on split linear layers share: cases of whole layers, one process's result, and the ways to be wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.exercises.shared.cases import group_case, ranks
from grader.exercises.shared.split_demands import TOLERANCE, share_only
from grader.exercises.shared.split_inputs import REFUSED, in_dtype_of, in_float64, numbers, piece, whole_linear
from grader.judging.compare import same
from grader.judging.demands import group_size, results_waited
from grader.judging.exercise import Case, Demand, Draw, Look, Symptom
from grader.judging.symptoms import group_ignored, raised, unwaited, wrong_ranks

OUT, IN = 0, 1  # the dim of the weight that is cut


def linear_cases(draw: Draw, grading: bool, dim: int) -> Sequence[Case]:
    """A whole layer on every rank, cut along `dim`; x and dy as far as the rank has them. One case that does not divide."""

    def inputs(n: int, rows: Sequence[int], each: int, other: int, bias: bool = True, dtype: str = "float64",
               extra: int = 0, options: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        cut = n * each + extra
        n_out, n_in = (cut, other) if dim == OUT else (other, cut)
        linear = whole_linear(draw, n_out, n_in, bias, dtype)
        x, dy = numbers(draw, *rows, n_in, dtype=dtype), numbers(draw, *rows, n_out, dtype=dtype)
        return [{"linear": linear, "x": x if dim == OUT or extra else piece(x, -1, n, r),
                 "dy": dy if dim == IN or extra else piece(dy, -1, n, r),
                 "refused": [cut, n] if extra else None, "options": options or {}} for r in range(n)]

    a, b = draw.integer(2, 4), draw.integer(3, 5)
    more = {"options": {"copy": False}} if dim == OUT else {"bias": False}
    made = [("1 rank", inputs(1, (2,), 3, 4)), (f"2 ranks, {a} each", inputs(2, (3,), a, 5)),
            ("3 ranks, float32, no bias", inputs(3, (2,), 3, 7, False, "float32")),
            ("4 ranks, x with 3 dims", inputs(4, (2, 3), 6, 11 + b)),  # so large that a view of the whole shows
            ("2 ranks, bfloat16", inputs(2, (2,), 3, 5, dtype="bfloat16")),
            (f"2 ranks, {'copy=False' if dim == OUT else 'no bias'}", inputs(2, (2,), 3, 5, **more)),
            ("3 ranks, sizes do not divide", inputs(3, (2,), 3, 5, extra=1))]
    if grading:
        made.append((f"{ranks(5)}, 1 each", inputs(5, (2,), 1, 4)))
    return [*(Case(name, tuple(one)) for name, one in made), group_case(lambda n: inputs(n, (2,), 2, 3))]


def whole(case: Case, rank: int) -> dict[str, Tensor | None]:
    """One process: x, dy, y, dx, weight and bias with their gradients, all whole, in float64."""
    x, dy = _whole_tensor(case, rank, "x"), _whole_tensor(case, rank, "dy")
    linear = in_float64(case.inputs[rank]["linear"])
    leaves = [None if one is None else one.requires_grad_() for one in (x, linear["weight"], linear["bias"])]
    y = F.linear(*leaves)
    y.backward(dy)
    dx, dw, db = (None if one is None else one.grad for one in leaves)
    return {"x": x.detach(), "dy": dy, "y": y.detach(), "dx": dx, "dW": dw, "db": db,
            "weight": linear["weight"].detach(), "bias": None if db is None else linear["bias"].detach()}


def _whole_tensor(case: Case, rank: int, name: str) -> Tensor:
    """x or dy as one process has it: the members' parts side by side, or any member's whole one."""
    parts = in_float64(case.peers_inputs(rank, name))
    linear = case.inputs[rank]["linear"]["weight"]
    size = linear.shape[1 if name == "x" else 0]
    return (parts[0] if parts[0].shape[-1] == size else torch.cat(parts, -1)).clone()


def result(case: Case, rank: int, y: Tensor, dx: Tensor, dw: Tensor, db: Tensor | None) -> dict[str, Any]:
    """As the adapter returns it."""
    gradients = {"weight": dw} | ({} if db is None else {"bias": db})
    return in_dtype_of({"y": y, "dx": dx, "gradients": gradients}, case.inputs[rank]["x"])


def refused(case: Case, rank: int) -> dict[str, str] | None:
    """What is expected where sizes do not divide."""
    return REFUSED if case.inputs[rank]["refused"] else None


def share(dim: int) -> Callable[[Look, int], int]:
    """Numbers in this rank's part of the layer."""

    def count(look: Look, rank: int) -> int:
        linear, n = look.case.inputs[rank]["linear"], group_size(look, rank)
        bias = 0 if linear["bias"] is None else linear["bias"].numel() // (n if dim == OUT else 1)
        return linear["weight"].numel() // n + bias

    return count


def technique(dim: int) -> tuple[Demand, ...]:
    """Only a share is held, and everything is waited for."""
    return (*share_only(share(dim), lambda look: look.case.inputs[0]["linear"]["weight"].itemsize), results_waited())


# ── ways to be wrong ──


def as_(other: Callable[[Look, int], dict[str, Any]], *parts: str, whatever: Sequence[str] = ()) -> Callable[[Look], bool]:
    """Of wrong ranks, these parts (y, dx, and gradients by name) are what another way gives, and not what is right; all
    other parts are right, but for those that may be `whatever`."""

    def test(look: Look, rank: int, found: Any, expected: Any) -> bool:
        instead, now, right = other(look, rank), flat(found), flat(expected)
        changed = [part for part in parts if part in right and part in instead]
        kept = [part for part in right if part not in (*parts, *whatever)]
        return (bool(changed) and all(same(now[part], instead[part], TOLERANCE) for part in changed)
                and not all(same(instead[part], right[part], TOLERANCE) for part in changed)
                and all(same(now[part], right[part], TOLERANCE) for part in kept))

    return wrong_ranks(test)


def flat(found: dict[str, Any]) -> dict[str, Any]:
    """y, dx and the gradients by name, side by side."""
    return {"y": found["y"], "dx": found["dx"], **found["gradients"]}


def times_n(*parts: str) -> Callable[[Look], bool]:
    """These parts are n times what they should be, the others right."""
    return as_(lambda look, r: {part: one * group_size(look, r) for part, one in flat(look.right[r]).items()}, *parts)


def divided(*parts: str) -> Callable[[Look], bool]:
    """These parts are an n-th of what they should be, the others right."""
    return as_(lambda look, r: {part: one / group_size(look, r) for part, one in flat(look.right[r]).items()}, *parts)


def first_wrong_part(*parts: str) -> Callable[[Look], bool]:
    """Of all parts, the first that is wrong on any rank is one of these."""

    def matches(look: Look) -> bool:
        for part in ("y", "dx", "weight", "bias"):
            for _, found, expected in look.pairs():
                right = flat(expected)
                if part in right and not same(flat(found).get(part), right[part], TOLERANCE):
                    return part in parts
        return False

    return matches


def no_gradient(look: Look, rank: int, found: Any, expected: Any) -> bool:
    """A parameter is missing from named_parameters, or without a gradient."""
    return any(found["gradients"].get(name) is None for name in expected["gradients"])


def shared_symptoms() -> tuple[Symptom, ...]:
    """Ways to fail that both kinds of layer have."""
    return (
        group_ignored("The ranks of other groups are touched: give group to your f or g, and to own_part."),
        unwaited(),
        raised("same dtype", "The numbers have another dtype than the layer that was given: copy its own numbers, do not "
                             "make new ones.", "other dtype"),
    )
