"""A GPT's parameters by name, and what a rank of a mesh has of them."""

import torch
from torch import Tensor

from grader.exercises.shared.meshes import place_of
from grader.judging.exercise import Draw
from utils.models.mesh_stage import stage_of
from utils.models.shards import cut_dim, piece

WIDTH, POSITIONS, WORDS = 8, 3, 5
State = dict[str, Tensor]
Sizes = dict[str, int]


def drawn_state(draw: Draw, n_layers: int) -> State:
    """Small parameters, the head's the embedding's; one layer's in float64."""
    d, state = WIDTH, {"embedding.weight": draw.tensor(WORDS, WIDTH), "positions.weight": draw.tensor(POSITIONS, WIDTH)}
    shapes = {"attention_norm": (d,), "qkv": (3 * d, d), "out": (d, d), "mlp_norm": (d,), "up": (4 * d, d),
              "down": (d, 4 * d)}
    for layer in range(n_layers):
        for part, shape in shapes.items():
            dtype = torch.float64 if layer == 0 else torch.float32
            state |= {f"blocks.{layer}.{part}.weight": draw.tensor(*shape, dtype=dtype),
                      f"blocks.{layer}.{part}.bias": draw.tensor(shape[0], dtype=dtype)}
    return state | {"norm.weight": draw.tensor(d), "norm.bias": draw.tensor(d), "head.weight": state["embedding.weight"]}


def of_rank(whole: State, n_layers: int, sizes: Sizes, rank: int) -> State:
    """What a rank of a mesh has of a model."""
    place = place_of(sizes, rank)
    mine = {name: x for name, x in whole.items() if stage_of(name, n_layers, sizes["pp"]) == place["pp"]}
    return {name: x if (dim := cut_dim(name)) is None else piece(x, place["tp"], sizes["tp"], dim)
            for name, x in mine.items()}
