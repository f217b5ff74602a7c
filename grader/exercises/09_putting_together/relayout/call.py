"""How a rank calls relayout: with a right cut_model, whatever the student's own is."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from grader.calling import plain
from grader.calling.meshes import parts_at
from grader.calling.right_parts import hand_parts


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Tensor]:
    """fn(*inputs), as usual."""
    hand_parts(fn, cut_model=_cut_model)
    return plain.call(fn, inputs, group)


def _cut_model(whole: dict[str, Tensor], sizes: dict[str, int], n_layers: int, rank: int) -> dict[str, Tensor]:
    replica = rank % (sizes["pp"] * sizes["tp"])
    return parts_at(divmod(replica, sizes["tp"]), whole, (sizes["pp"], sizes["tp"]), n_layers)
