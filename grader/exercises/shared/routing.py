"""Routing in oracles: which experts, and whom they take, as a queue that is served one choice after the other."""

from collections.abc import Iterable

import torch
from torch import Tensor

Pair = tuple[int, int]  # (token, choice)


def routed(logits_TE: Tensor, k: int, capacity: int) -> tuple[Tensor, Tensor, Tensor]:
    """Each token's experts, their weights, and which are kept, (T, k) each."""
    order = logits_TE.argsort(1, descending=True)[:, :k]
    return order, logits_TE.gather(1, order).softmax(1), taken(order, capacity, choices_first(order))


def choices_first(experts_Tk: Tensor) -> list[Pair]:
    """All tokens' first choices, then all second ones."""
    n_tokens, k = experts_Tk.shape
    return [(token, choice) for choice in range(k) for token in range(n_tokens)]


def taken(experts_Tk: Tensor, capacity: int, queue: Iterable[Pair]) -> Tensor:
    """(T, k): whether each expert still has a place when a choice's turn comes."""
    kept, load = torch.zeros_like(experts_Tk, dtype=torch.bool), {}
    for token, choice in queue:
        expert = int(experts_Tk[token, choice])
        kept[token, choice] = load.get(expert, 0) < capacity
        load[expert] = load.get(expert, 0) + 1
    return kept
