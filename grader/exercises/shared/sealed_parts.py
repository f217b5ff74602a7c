"""Inputs of a sealed case whose ranks make a block, or a GPT of blocks: by its state, where others have a seed."""

from typing import Any

from torch import nn

from grader.calling.sealing import Cut
from grader.evidence.case import SEALED
from utils.models.shards import cut_dim


def sealed_parts(inputs: dict[str, Any], whole: nn.Module, n: int, seed: str, qkv_parts: int = 1) -> dict[str, Any]:
    """The same inputs; what `n` ranks cut of `whole` is sealed.

    seed: the name of the input that `whole` was made from, by which whoever has it could make it again.
    qkv_parts: 3 where the rows of q, of k and of v are cut each for itself.
    """
    state = {name: p.detach() for name, p in whole.named_parameters()}
    cuts = {name: Cut(("state", name), cut_dim(name), n, qkv_parts if "qkv." in name else 1)
            for name in state if cut_dim(name) is not None}
    return inputs | {seed: 0, "state": state, SEALED: cuts}
