"""A mesh by one process: which ranks form a group along each axis, and where a rank stands."""

import math
from collections.abc import Sequence

AXES = ("dp", "pp", "tp")
# The library's. (Of device_mesh the class alone: what the rest of the library imports calls functions of that file.)
MESHES = ("torch.distributed.device_mesh.DeviceMesh", "torch.distributed._mesh_layout", "torch.distributed._pycute")
Place = dict[str, int]


def sizes_of(shape: Sequence[int]) -> dict[str, int]:
    """(2, 1, 4) → {"dp": 2, "pp": 1, "tp": 4}."""
    return dict(zip(AXES, shape, strict=True))


def place_of(sizes: dict[str, int], rank: int) -> Place:
    """Axis → where the rank stands along it; the last axis varies fastest."""
    place = {}
    for axis, size in reversed(sizes.items()):
        rank, place[axis] = divmod(rank, size)
    return {axis: place[axis] for axis in sizes}


def line_of(sizes: dict[str, int], rank: int, axis: str) -> list[int]:
    """The ranks that differ from `rank` along this axis only."""
    own = place_of(sizes, rank) | {axis: None}
    return [other for other in range(math.prod(sizes.values())) if place_of(sizes, other) | {axis: None} == own]


def lines_of(sizes: dict[str, int]) -> dict[str, list[list[int]]]:
    """Axis → all its groups."""
    ranks = range(math.prod(sizes.values()))
    return {axis: [line for rank in ranks if (line := line_of(sizes, rank, axis))[0] == rank] for axis in sizes}


def in_words(sizes: dict[str, int]) -> str:
    """"dp 2 × pp 2 × tp 2"."""
    return " × ".join(f"{axis} {size}" for axis, size in sizes.items())
