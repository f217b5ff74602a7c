"""A mixture of experts, a few of them on each rank: tokens travel to their experts and back."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from grader.calling.experts import make_moe, stacked_experts
from grader.calling.sealing import Cut
from grader.evidence.case import SEALED, WEIGHED
from grader.exercises.shared.cases import group_case, ranks
from grader.exercises.shared.routing import routed
from grader.exercises.shared.split_inputs import first_wrong_slip, numbers, or_refused
from grader.exercises.technique.splitting import TOLERANCE
from grader.judging.exercise import Case, Draw, Exercise, Slip
from utils.models.experts import MoE, Route

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

Layer = Callable[[MoE, Tensor], Tensor]


def _plain(moe: MoE, x_TD: Tensor) -> Tensor:
    return moe(x_TD, routed)


def _one(case: Case, member: int, layer: Layer = _plain) -> dict[str, Any]:
    """The whole layer on one rank's tokens: y, dx, and all gradients by name, zeros where nothing came."""
    inputs, moe = case.inputs[member], make_moe(case.inputs[member])
    x = inputs["x"].clone().requires_grad_(inputs["x_needs_gradient"])
    y = layer(moe, x)
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


# ── slips ──


def _y(id: str, hint: str, layer: Callable[[Case, int], Layer], shows: Callable[[Case], bool] = lambda case: True) -> Slip:
    """y is what another layer(case, rank) makes of this rank's tokens."""
    return first_wrong_slip(id, hint, "y", lambda case, rank, right: layer(case, rank)(
        make_moe(case.inputs[rank]), case.inputs[rank]["x"]).detach(), shows)


def _routing(change: Callable[[Tensor, int, int], tuple[Tensor, Tensor, Tensor]]) -> Callable[[Case, int], Layer]:
    """The plain layer with another route."""
    return lambda case, rank: lambda moe, x: moe(x, change)


def _changed(change: Callable[..., tuple[Tensor, Tensor, Tensor]]) -> Route:
    """route whose results go through change(experts, weights, kept)."""
    return lambda logits, k, capacity: change(*routed(logits, k, capacity))


def _with_experts(number: Callable[[int, int, int], int]) -> Callable[[Case, int], Layer]:
    """Expert e is taken for number(e, n, experts of a rank)."""

    def layer(case: Case, rank: int) -> Layer:
        def forward(moe: MoE, x: Tensor) -> Tensor:
            n, experts = case.group_size(rank), list(moe.experts)
            moe.experts = nn.ModuleList(experts[number(e, n, len(experts) // n)] for e in range(len(experts)))
            return _plain(moe, x)
        return forward

    return layer


def _passed_on(case: Case, rank: int) -> Layer:
    """A token of which nothing is kept passes as it is."""

    def forward(moe: MoE, x: Tensor) -> Tensor:
        nowhere = ~routed(moe.router(x), moe.k, moe.capacity)[2].any(1, keepdim=True)
        return _plain(moe, x) + x * nowhere

    return forward


def _overwritten(case: Case, rank: int) -> Layer:
    """Of a token's kept choices only the expert with the largest number is in y."""

    def forward(moe: MoE, x: Tensor) -> Tensor:
        last = {token: (choice, expert) for token, choice, expert in _pairs(case.inputs[rank])}
        _, weights, _ = routed(moe.router(x), moe.k, moe.capacity)
        return torch.stack([weights[t, last[t][0]] * moe.experts[last[t][1]](row) if t in last else 0 * row
                            for t, row in enumerate(x)])

    return forward


def _weighted_first(case: Case, rank: int) -> Layer:
    """The weights are factors of what goes into the experts."""

    def forward(moe: MoE, x: Tensor) -> Tensor:
        _, weights, _ = routed(moe.router(x), moe.k, moe.capacity)
        return sum(moe.experts[e](x[t:t + 1] * weights[t, j]) * (torch.arange(len(x)) == t)[:, None]
                   for t, j, e in _pairs(case.inputs[rank])) + 0 * x

    return forward


def _placed(order: Callable[[Case, int], list[tuple[int, int, int, int]]]) -> Callable[[Case, int], Layer]:
    """What comes home is of order(case, rank)'s pairs (member, token, choice, expert), one for each of this rank's own."""

    def layer(case: Case, rank: int) -> Layer:
        def forward(moe: MoE, x: Tensor) -> Tensor:
            _, weights, _ = routed(moe.router(x), moe.k, moe.capacity)
            y = torch.zeros_like(x)
            for (t, j, _), (member, token, _, e) in zip(_pairs(case.inputs[rank]), order(case, rank), strict=True):
                y[t] = y[t] + weights[t, j] * moe.experts[e](case.inputs[member]["x"][token])
            return y
        return forward

    return layer


def _not_restored(case: Case, rank: int) -> list[tuple[int, int, int, int]]:
    """A rank sends its results back sorted by expert, not as their rows came."""
    each = case.inputs[rank]["n_experts"] // case.group_size(rank)
    home = []
    for other in range(case.group_size(rank)):
        came = [(member, *pair) for member in case.members(rank) for pair in _pairs(case.inputs[member])
                if pair[2] // each == other]
        done = sorted(came, key=lambda row: row[3])
        home += [sent for sent, asked in zip(done, came, strict=True) if asked[0] == rank]
    return home


def _by_token(case: Case, rank: int) -> list[tuple[int, int, int, int]]:
    """The results come back sorted by expert, and are taken as if sorted by token."""
    own = _pairs(case.inputs[rank])
    result_of = dict(zip(sorted(pair[:2] for pair in own), own, strict=True))
    return [(rank, *result_of[pair[:2]]) for pair in own]


def _without_router(moe: MoE, x: Tensor) -> Tensor:
    """No gradient reaches x through the weights."""
    return moe(x, lambda logits, k, capacity: routed(moe.router(x.detach()), k, capacity))


def _gradients(id: str, hint: str, change: Callable[[Case, int, dict[str, Tensor]], dict[str, Any]],
               shows: Callable[[Case], bool] = lambda case: True) -> Slip:
    """y and dx are right, some gradients are others."""
    return first_wrong_slip(id, hint, "gradients", lambda case, rank, right: right | change(case, rank, right), shows)


def _router_times(case: Case, rank: int, right: dict[str, Tensor]) -> dict[str, Any]:
    """The router's gradients of all members, summed."""
    return {ROUTER: torch.stack([_one(case, member)["gradients"][ROUTER] for member in case.members(rank)]).sum(0)}


def _experts(right: dict[str, Tensor], factor: float) -> dict[str, Tensor]:
    return {name: gradient * factor for name, gradient in right.items() if name != ROUTER}


def _own_tokens(case: Case, rank: int, right: dict[str, Tensor]) -> dict[str, Tensor]:
    own, each = _one(case, rank)["gradients"], case.inputs[rank]["n_experts"] // case.group_size(rank)
    first = case.group_rank(rank) * each
    return {f"experts.{local}.{name}": own[f"experts.{first + local}.{name}"] for local, name in itertools.product(
        range(each), ("up.weight", "up.bias", "down.weight", "down.bias"))}


EXERCISE = Exercise(
    title="A layer of experts in pieces",
    parameters=("moe", "group"),
    forbidden=("torch.distributed.tensor",),
    make_cases=_cases,
    oracle=or_refused(_right),
    tolerance=TOLERANCE,
    trains=True,
    measured=True,
    slips=(
        _y("weights forgotten", "What the experts make is added up as it is: multiply by the weights of the choices.",
           _routing(_changed(lambda e, w, kept: (e, torch.ones_like(w), kept)))),
        _y("capacity ignored", "Dropped choices are in y: send what is kept, nothing else.",
           _routing(_changed(lambda e, w, kept: (e, w, torch.ones_like(kept))))),
        _y("weights of the kept", "The weights are spread anew over what is kept: a dropped choice's share is lost.",
           _routing(_changed(lambda e, w, kept: (e, (w * kept) / (w * kept).sum(1, keepdim=True).clamp(min=1e-30), kept)))),
        _y("first choices only", "Only each token's first choice is in y: all k kept ones count.",
           _routing(_changed(lambda e, w, kept: (e, w, kept & (torch.arange(kept.shape[1]) == 0))))),
        _y("choices overwritten", "Of each token only one choice is in y: y[token] += ... keeps one of several results for "
           "the same token. Use index_add, which adds them all up.", _overwritten),
        _y("passed on", "A token of which nothing is kept comes out as it went in: this layer makes 0 of it; the residual "
           "connection is outside.", _passed_on),
        _y("weighted before", "The weights are factors of what goes into the experts: an expert is not linear, so they "
           "belong behind it.", _weighted_first),
        _y("order not restored", "Results go back sorted by expert, but the rows came sorted by rank: undo the sorting, "
           "with order.argsort(), before you send them home.", _placed(_not_restored)),
        _y("taken by token", "The results come home sorted by expert, and you take them as if sorted by token: sort token "
           "and choice the same way as the rows that you sent.", _placed(_by_token)),
        _y("first experts everywhere", "Every rank has the first E/n experts: rank r's begin with number r·E/n.",
           _with_experts(lambda e, n, each: e % each)),
        _y("experts interleaved", "A rank has every n-th expert, but is sent tokens for E/n neighbours: rank r's are the "
           "r-th n-th.", _with_experts(lambda e, n, each: e // each + n * (e % each))),
        _y("input added", "x is in y: the residual connection is outside the layer.",
           lambda case, rank: lambda moe, x: x + _plain(moe, x)),
        first_wrong_slip("router cut off", "y is right, but what x gets back through the router is missing: the weights "
                         "depend on x too.", "dx", lambda case, rank, right: _one(case, rank, _without_router)["dx"]),
        _gradients("router summed", "The router's gradient is summed over ranks already: leave it that of own tokens. "
                   "Whoever trains sums it once, together with all that is on every rank.", _router_times),
        _gradients("experts divided by n", "The experts' gradients are n times too small: each is a sum over all tokens "
                   "that came, and nothing is averaged here.",
                   lambda case, rank, right: _experts(right, 1 / case.group_size(rank))),
        _gradients("experts times n", "The experts' gradients are n times too large: an expert is on one rank only, so "
                   "nothing is to be summed.", lambda case, rank, right: _experts(right, case.group_size(rank))),
        _gradients("experts untrained", "The experts have no gradient: compute with them in the graph, not under no_grad, "
                   "nor with detached copies of their weights.", lambda case, rank, right: _experts(right, 0)),
        _gradients("own tokens only", "An expert's gradient has this rank's tokens only: those of the others came too.",
                   _own_tokens),
    ),
)
