"""A mixture of experts, a few of them on each rank: tokens travel to their experts and back."""

from collections.abc import Sequence
from typing import Any

import torch

from grader.calling.experts import make_moe, stacked_experts
from grader.calling.sealing import Cut
from grader.evidence.case import SEALED, WEIGHED
from grader.exercises.shared.cases import group_case, ranks
from grader.exercises.shared.routing import routed
from grader.exercises.shared.split_inputs import numbers, or_refused
from grader.exercises.technique.splitting import TOLERANCE
from grader.judging.exercise import Case, Draw, Exercise

INNER = 5
ROUTER = "router.weight"


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(tokens: Sequence[int], n_experts: int, k: int, capacity: int, dim: int = 4, dtype: str = "float64",
               alike: bool = False, refused: bool = False, inner: int = INNER, first: bool = False) -> list[dict[str, Any]]:
        """One rank for each number of tokens. alike: all tokens have one direction, so all choose the same experts.

        first: no layer stands before this one, so that x needs no gradient.
        """
        shared = {"seed": draw.seed(), "inner": inner, "n_experts": n_experts, "k": k, "capacity": capacity,
                  "refused": [n_experts, len(tokens)] if refused else None, "x_needs_gradient": not first}
        direction, found = numbers(draw, dim, dtype=dtype, divisor=25), []
        for n_tokens in tokens:
            x = numbers(draw, n_tokens, dim, dtype=dtype, divisor=25)
            x = x[:, :1].abs() * direction if alike else x
            found.append({"x": x, "dy": numbers(draw, n_tokens, dim, dtype=dtype, divisor=25), **shared})
        return found if refused else _with_traffic(found)

    cases = [Case(f"{ranks(1)}, 3 experts, k = 2", tuple(inputs([5], 3, 2, 3))),
             Case(f"{ranks(2)}, 4 experts, k = 2, some dropped", tuple(inputs([7, 7], 4, 2, 3))),
             Case(f"{ranks(3)} with 6, 1 and 4 tokens, 6 experts, k = 3", tuple(inputs([6, 1, 4], 6, 3, 2))),
             Case(f"{ranks(4)}, k = 1, all tokens to one expert", tuple(inputs([3] * 4, 4, 1, 2, alike=True))),
             Case(f"{ranks(3)}, all tokens to one expert, x without gradient", tuple(
                 inputs([2] * 3, 3, 1, 2, alike=True, first=True))),
             Case(f"{ranks(2)}, room for all, float32", tuple(inputs([4, 4], 4, 2, 99, dtype="float32"))),
             Case(f"{ranks(3)}, 4 experts", tuple(inputs([2] * 3, 4, 1, 2, refused=True)))]
    n_tokens = draw.integer(4, 9)  # drawn always: what follows is the same
    if grading:
        cases.append(Case(f"{ranks(4)}, 8 experts, {n_tokens} tokens", tuple(inputs([n_tokens] * 4, 8, 2, 2))))
        cases.append(Case(f"{ranks(2)}, weighed", tuple(own | {WEIGHED: True} for own in inputs(
            [3, 3], 4, 2, 3, dim=400, inner=900))))
        cases.append(Case(f"{ranks(3)}, sealed", tuple(map(_sealed, inputs([5] * 3, 6, 2, 3)))))
    return [*cases, group_case(lambda n: inputs([5] * n, 2 * n, 2, 2), "2 experts each")]


def _sealed(inputs: dict[str, Any]) -> dict[str, Any]:
    """No rank knows the experts of others, nor the seed by which it could make them."""
    state = stacked_experts(make_moe(inputs))
    cuts = {name: Cut(("state", name), 0, 3) for name in state if name != ROUTER}
    return inputs | {"seed": 0, "state": state, SEALED: cuts}


def _with_traffic(members: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each rank also how many rows it has for others, and others for it."""
    per_rank = members[0]["n_experts"] // len(members)
    homes = [[expert // per_rank for _, _, expert in _pairs(inputs)] for inputs in members]
    return [inputs | {"rows_out": sum(home != r for home in homes[r]), "rows_in": sum(
        home == r for other, those in enumerate(homes) if other != r for home in those)}
        for r, inputs in enumerate(members)]


def _pairs(inputs: dict[str, Any]) -> list[tuple[int, int, int]]:
    """(token, choice, expert) of what is kept of a rank's choices, sorted by expert, then by token and choice."""
    experts, _, kept = routed(make_moe(inputs).router(inputs["x"]), inputs["k"], inputs["capacity"])
    found = [(t, j, int(experts[t, j])) for t, j in kept.nonzero().tolist()]
    return sorted(found, key=lambda pair: pair[2])


# ── one process ──

def _one(case: Case, member: int) -> dict[str, Any]:
    """The whole layer on one rank's tokens: y, dx, and all gradients by name, zeros where nothing came."""
    inputs, moe = case.inputs[member], make_moe(case.inputs[member])
    x = inputs["x"].clone().requires_grad_(inputs["x_needs_gradient"])
    y = moe(x, routed)
    (y * inputs["dy"]).sum().backward()
    gradients = {name: torch.zeros_like(p) if p.grad is None else p.grad for name, p in moe.named_parameters()}
    return {"y": y.detach(), "dx": x.grad, "gradients": gradients}


def _right(case: Case, rank: int) -> dict[str, Any]:
    of_members = [_one(case, member)["gradients"] for member in case.members(rank)]
    own = _one(case, rank)
    each = case.inputs[rank]["n_experts"] // case.group_size(rank)
    gradients = {ROUTER: own["gradients"][ROUTER]}
    for local, expert in enumerate(range(case.group_rank(rank) * each, (case.group_rank(rank) + 1) * each)):
        for name in ("up.weight", "up.bias", "down.weight", "down.bias"):
            gradients[f"experts.{local}.{name}"] = torch.stack(
                [of_one[f"experts.{expert}.{name}"] for of_one in of_members]).sum(0)
    return {"y": own["y"], "dx": own["dx"], "gradients": gradients}


EXERCISE = Exercise(
    title="A layer of experts in pieces",
    parameters=("moe", "group"),
    forbidden=("torch.distributed.tensor",),
    make_cases=_cases,
    oracle=or_refused(_right),
    tolerance=TOLERANCE,
    trains=True,
    measured=True,
)
