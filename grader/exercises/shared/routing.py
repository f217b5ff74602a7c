"""Routing in oracles: which experts, and whom they take, as a queue that is served one choice after the other."""

import torch
from torch import Tensor


def routed(logits_TE: Tensor, k: int, capacity: int) -> tuple[Tensor, Tensor, Tensor]:
    """Each token's experts, their weights, and which are kept, (T, k) each."""
    experts = logits_TE.argsort(1, descending=True)[:, :k]
    return experts, logits_TE.gather(1, experts).softmax(1), _taken(experts, capacity)


def _taken(experts_Tk: Tensor, capacity: int) -> Tensor:
    """(T, k): whether each expert still has a place when a choice's turn comes; all first choices before any second one."""
    kept, load = torch.zeros_like(experts_Tk, dtype=torch.bool), {}
    for choice, of_tokens in enumerate(experts_Tk.T.tolist()):
        for token, expert in enumerate(of_tokens):
            kept[token, choice] = load.get(expert, 0) < capacity
            load[expert] = load.get(expert, 0) + 1
    return kept
