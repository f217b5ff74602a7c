"""What a transformer block keeps for its backward pass, as bars: thirteen parts in five groups."""

from collections.abc import Mapping, Sequence

from utils.figures.memory_bars import memory_bars
from utils.figures.style import Picture

GROUPS = {
    "LayerNorms": ("attention_norm", "mlp_norm"),
    "qkv and out": ("qkv", "attention.scores", "out"),
    "core of attention": ("attention.softmax", "attention.dropout", "attention.mix"),
    "MLP": ("up", "gelu", "down"),
    "last masks": ("attention_dropout", "mlp_dropout"),
}


def activation_bars(bars: Sequence[tuple[str, Mapping[str, float]]], title: str = "") -> Picture:
    """One bar for each (label, {part of a TransformerBlock: bytes}), the parts of a kind together.

    What belongs to no group keeps its own name.  Raises: ValueError as memory_bars.
    """
    return memory_bars([(label, _grouped(parts)) for label, parts in bars], title=title)


def _grouped(parts: Mapping[str, float]) -> dict[str, float]:
    group_of = {part: group for group, members in GROUPS.items() for part in members}
    found: dict[str, float] = {}
    for part, size in parts.items():
        group = group_of.get(part, part)
        found[group] = found.get(group, 0) + size
    return {group: found[group] for group in (*GROUPS, *found) if group in found}
