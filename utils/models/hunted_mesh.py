"""The parts of the blind hunt's trainer that are right: its mesh, weights, texts and messages, and a run with a restart.

Shapes: R this rank's rows of a micro-batch, S those of all ranks of the tensor axis, D width, H hidden, E experts,
V vocabulary. A row is one token. All numbers are float64.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

AXES = ("data", "pipeline", "tensor")
N_LAYERS, N_EXPERTS, VOCABULARY, WIDTH, HIDDEN, LENGTH = 2, 2, 7, 4, 6, 4
N_TARGETS = (4, 1, 3, 2, 4, 2, 1)  # of one text after the other, so that replicas have unequal numbers
IGNORED = -100  # a target that is padding
WHOLE, BY_COLUMNS, BY_ROWS, BY_EXPERTS = None, 1, 0, 0  # along which dimension the tensor axis cuts a parameter
PARAMETERS = {  # of one layer: (shape, how it is cut)
    "dense_norm": ((WIDTH,), WHOLE), "up": ((WIDTH, HIDDEN), BY_COLUMNS), "down": ((HIDDEN, WIDTH), BY_ROWS),
    "experts_norm": ((WIDTH,), WHOLE), "router": ((WIDTH, N_EXPERTS), WHOLE),
    "expert_up": ((N_EXPERTS, WIDTH, HIDDEN), BY_EXPERTS), "expert_down": ((N_EXPERTS, HIDDEN, WIDTH), BY_EXPERTS),
}
Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Settings:
    """batch: texts of one step, over all replicas; micro: texts of one micro-batch; balance: the weight of that loss."""

    batch: int = 6
    micro: int = 2
    lr: float = 0.2
    warm_up: int = 3
    momentum: float = 0.5
    max_norm: float = 0.4
    balance: float = 0.1
    dropout: float = 0.25
    seed: int = 0


AS_GIVEN = Settings()


# ── where a rank stands ──


def places(rank: int, shape: Shape) -> dict[str, int]:
    """Axis → this rank's place along it. Ranks that follow each other are neighbours along tensor, then along pipeline."""
    _, n_stages, n_tensor = shape
    return {"data": rank // (n_stages * n_tensor), "pipeline": rank // n_tensor % n_stages, "tensor": rank % n_tensor}


class Mesh:
    """By axis this rank's `place`, the `size` and the `group`. shape: data × pipeline × tensor; one or two stages.

    All ranks of the world make it.
    """

    def __init__(self, shape: Shape):
        world, rank = math.prod(shape), dist.get_rank()
        self.shape = tuple(shape)
        self.place, self.size = places(rank, shape), dict(zip(AXES, shape, strict=True))
        self.group: dict[str, dist.ProcessGroup] = {}
        for axis in AXES:
            lines: dict[tuple, list[int]] = {}  # the places along the other axes → the ranks that have them
            for other in range(world):
                elsewhere = tuple(place for name, place in places(other, shape).items() if name != axis)
                lines.setdefault(elsewhere, []).append(other)
            for line in lines.values():
                group = dist.new_group(line)
                if rank in line:
                    self.group[axis] = group

    @property
    def is_first(self) -> bool:
        """Whether this rank is in the first stage."""
        return self.place["pipeline"] == 0

    @property
    def is_last(self) -> bool:
        return self.place["pipeline"] == self.size["pipeline"] - 1


# ── weights and texts, drawn from a seed ──


def whole_weights(seed: int) -> dict[str, Tensor]:
    """Of the whole model: the table (V, D), which is also the head, and the layers' parameters, as in "layers.0.up"."""
    generator = torch.Generator().manual_seed(seed)
    weights = {"table": _drawn(generator, VOCABULARY, WIDTH)}
    for layer in range(N_LAYERS):
        for name, (shape, _) in PARAMETERS.items():
            drawn = _drawn(generator, *shape)
            weights[f"layers.{layer}.{name}"] = 1 + drawn / 3 if name.endswith("norm") else drawn
    return weights


def own_weights(weights: dict[str, Tensor], rank: int, shape: Shape) -> dict[str, Tensor]:
    """What a rank of the mesh has of them: the table, and its stage's layers, cut along the tensor axis."""
    place, (_, n_stages, n_tensor) = places(rank, shape), shape
    own = {}
    for name, weight in weights.items():
        _, layer, part = name.split(".") if "." in name else ("", None, name)
        if layer is not None and int(layer) * n_stages // N_LAYERS != place["pipeline"]:
            continue
        dim = PARAMETERS[part][1] if layer is not None else WHOLE
        own[name] = (weight if dim is None else weight.chunk(n_tensor, dim)[place["tensor"]]).clone()
    return own


def drawn_texts(seed: int, n_texts: int = 17) -> list[Tensor]:
    """Texts of 2 to 5 tokens, no two alike: of each its tokens and its targets, padded.  Shapes: (2, LENGTH) each."""
    generator = torch.Generator().manual_seed(seed)
    texts = []
    for number in range(n_texts):
        n_targets = N_TARGETS[number % len(N_TARGETS)]
        tokens = torch.randint(VOCABULARY, (LENGTH + 1,), generator=generator, device="cpu")
        tokens[:2] = torch.tensor(divmod(number, VOCABULARY))
        targets = torch.where(torch.arange(LENGTH) < n_targets, tokens[1:], IGNORED)
        texts.append(torch.stack([tokens[:-1], targets]))
    return texts


def own_rows(texts: Sequence[Tensor], mesh: Mesh) -> tuple[Tensor, Tensor]:
    """(tokens_R, targets_R): this rank's part of the rows of a micro-batch, which the tensor axis cuts into equal parts."""
    tokens_S, targets_S = torch.cat(list(texts), dim=1)
    n, place = mesh.size["tensor"], mesh.place["tensor"]
    return tokens_S.chunk(n)[place], targets_S.chunk(n)[place]


def _drawn(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float64, device="cpu")


# ── parts of a layer ──


def normed(x_RD: Tensor, weight_D: Tensor) -> Tensor:
    """RMSNorm: each row by its root mean square, times the weight."""
    return x_RD / (x_RD ** 2).mean(-1, keepdim=True).add(1e-6).sqrt() * weight_D


def gathered(x_RD: Tensor, group: dist.ProcessGroup) -> Tensor:
    """All ranks' rows (S, D); backward adds up what the ranks send back, and keeps the own rows of it."""
    return _Exchange.apply(x_RD, collected, _summed_rows, group)


def scattered(x_SD: Tensor, group: dist.ProcessGroup) -> Tensor:
    """The own rows (R, D) of the sum over ranks; backward gathers."""
    return _Exchange.apply(x_SD, _summed_rows, collected, group)


def collected(x_R: Tensor, group: dist.ProcessGroup) -> Tensor:
    """All ranks' rows as numbers, without a gradient."""
    parts = [torch.empty_like(x_R) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, x_R.detach().contiguous(), group=group)
    return torch.cat(parts)


def _summed_rows(x_SD: Tensor, group: dist.ProcessGroup) -> Tensor:
    total = x_SD.detach().clone()
    dist.all_reduce(total, group=group)
    return total.chunk(dist.get_world_size(group))[dist.get_rank(group)].clone()


class _Exchange(torch.autograd.Function):
    """One exchange forward and its mirror image backward."""

    @staticmethod
    def forward(ctx, x: Tensor, there, back, group: dist.ProcessGroup) -> Tensor:
        ctx.back, ctx.group = back, group
        return there(x, group)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        return ctx.back(gradient, ctx.group), None, None, None


# ── messages between the stages ──


def send(x_RD: Tensor, mesh: Mesh, to: int) -> tuple[dist.Work, Tensor]:
    """Begin to send rows to the next stage (to=1) or the one before (to=-1) → the work to wait for, and what it reads."""
    x_RD = x_RD.detach().contiguous()
    return dist.isend(x_RD, group=mesh.group["pipeline"], group_dst=mesh.place["pipeline"] + to), x_RD


def receive(n_rows: int, mesh: Mesh, source: int) -> Tensor:
    """Rows (R, D) from the stage before (source=-1) or the next one (source=1)."""
    x_RD = torch.empty(n_rows, WIDTH, dtype=torch.float64)
    dist.recv(x_RD, group=mesh.group["pipeline"], group_src=mesh.place["pipeline"] + source)
    return x_RD


# ── a run ──


def run_trainer(trainer: type, shape: Shape, settings: Settings = AS_GIVEN, n_steps: int = 4,
                restart_after: int = 2) -> list[dict[str, Any]]:
    """On each rank of the mesh: train, save, go on in a new trainer that loads what was saved → one note a step."""
    mesh, texts = Mesh(shape), drawn_texts(settings.seed)
    first = trainer(mesh, texts, settings)
    notes = [first.step() for _ in range(restart_after)]
    second = trainer(mesh, texts, settings)
    second.load(first.state())
    return notes + [second.step() for _ in range(n_steps - restart_after)]
