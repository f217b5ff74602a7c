"""A mixture of experts on one process: a router, MLPs of which each token uses k, and a limit to what an expert takes.

Shapes: T tokens, D model, E experts, k choices of a token.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Route = Callable[[Tensor, int, int], tuple[Tensor, Tensor, Tensor]]


class Expert(nn.Module):
    """An MLP: down(GELU(up(x))).  Shapes: (…, D) → (…, D); inner: numbers between the two layers."""

    def __init__(self, dim: int, inner: int):
        super().__init__()
        self.up, self.down = nn.Linear(dim, inner), nn.Linear(inner, dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.gelu(self.up(x)))


class MoE(nn.Module):
    """n_experts experts behind a router; each token goes to k of them, and each expert takes `capacity` tokens at most.

    Source: Lepikhin et al., GShard, arXiv 2006.16668 (k = 2); Fedus et al., Switch Transformers, arXiv 2101.03961 (k = 1).
    Raises: ValueError if a token cannot go to k experts, or an expert may take no token.
    """

    def __init__(self, dim: int, inner: int, n_experts: int, k: int, capacity: int):
        super().__init__()
        if not 1 <= k <= n_experts:
            raise ValueError(f"a token goes to k of {n_experts} experts: choose k from 1 to {n_experts}, not {k}")
        if capacity < 1:
            raise ValueError(f"an expert takes at least one token: capacity must be 1 or more, not {capacity}")
        self.k, self.capacity = k, capacity
        self.router = nn.Linear(dim, n_experts, bias=False)
        self.experts = nn.ModuleList(Expert(dim, inner) for _ in range(n_experts))

    def forward(self, x_TD: Tensor, route: Route) -> Tensor:
        """(T, D) → (T, D): of each token the weighted sum of what its experts make of it; a choice that is dropped adds 0.

        route(logits_TE, k, capacity): each token's experts, their weights, and which are kept, (T, k) each.
        """
        experts_Tk, weights_Tk, kept_Tk = route(self.router(x_TD), self.k, self.capacity)
        y_TD = torch.zeros_like(x_TD)
        for number, expert in enumerate(self.experts):
            token, choice = (kept_Tk & (experts_Tk == number)).nonzero(as_tuple=True)
            y_TD = y_TD.index_add(0, token, expert(x_TD[token]) * weights_Tk[token, choice][:, None])
        return y_TD
