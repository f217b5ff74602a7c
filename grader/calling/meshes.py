"""A mesh's groups, models and gradients of exercises about meshes: what is a rank's, and what it makes of it."""

import torch
import torch.distributed as dist
from torch import Tensor, nn

from utils.models.blocks import BlockGPT
from utils.models.mesh_stage import stage_of, tied_gpt
from utils.models.shards import cut_dim, piece

NOT_A_MEMBER, NO_GROUP = "this rank is not in it", "no group"
PASS = "a pass of the stage"
EMBEDDING, HEAD = "embedding.weight", "head.weight"
Lines = dict[str, list[list[int]]]  # axis -> the ranks of each of its groups


def groups_of(lines: Lines) -> dict[str, dist.ProcessGroup]:
    """Axis → this rank's group. All ranks make all groups."""
    mesh = {}
    for axis, groups in lines.items():
        for line in groups:
            group = dist.new_group(line)
            if dist.get_rank() in line:
                mesh[axis] = group
    return mesh


def ranks_of(group: object) -> list[int] | str:
    """The ranks of a group, in words what it is if it has none."""
    if group is dist.GroupMember.NON_GROUP_MEMBER:
        return NOT_A_MEMBER
    if not isinstance(group, dist.ProcessGroup):
        return NO_GROUP
    return dist.get_process_group_ranks(group)


def make_model(facts: dict[str, int]) -> BlockGPT:
    """A GPT in float64 whose head is its embedding; it weighs more than at a usual start, and no bias is 0: all shows.

    Without a seed among the facts: one that has other weights than the case's.
    """
    seed = facts.get("seed", 0)
    model = tied_gpt(seed, length=facts["length"], dim=facts["dim"], n_layers=facts["layers"],
                     n_heads=facts["heads"], p=0.0).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn(p.shape, generator=generator, dtype=p.dtype) / 5)
    return model


def leave_gradients(model: nn.Module) -> None:
    """As if something had been trained before: ones in every .grad."""
    for p in model.parameters():
        p.grad = torch.ones_like(p)


def gradients_of(stage: nn.Module) -> dict[str, Tensor | None]:
    """Copies of them, by the parameters' names."""
    return {name: None if p.grad is None else p.grad.clone() for name, p in stage.named_parameters()}


def as_number(value: object) -> Tensor | None:
    """A plain number or a tensor of one as a tensor without dimensions, in float64; None stays None."""
    return None if value is None else torch.as_tensor(value, dtype=torch.float64).detach().reshape(())


def own_part(name: str, whole: Tensor, place: int, n: int) -> Tensor:
    """What the rank at `place` of n along tp has of a parameter, or of its gradient."""
    dim = cut_dim(name)
    return whole if dim is None else piece(whole, place, n, dim)


def parts_on(rank: int, whole: dict[str, Tensor], lines: Lines, n_layers: int) -> dict[str, Tensor]:
    """Of a model's tensors by name what this rank has: its stage's, in pieces where they are cut. A tied head needs none."""
    places, sizes = zip(*(_place(lines[axis], rank) for axis in ("pp", "tp")), strict=True)
    return parts_at(places, whole | ({HEAD: whole.get(HEAD, whole[EMBEDDING])} if sizes[0] > 1 else {}), sizes, n_layers)


def parts_at(places: tuple[int, int], whole: dict[str, Tensor], sizes: tuple[int, int], n_layers: int) -> dict[str, Tensor]:
    """The same of a rank at these places along pp and tp, of so many; each name is that of its own tensor."""
    return {name: own_part(name, x, places[1], sizes[1]) for name, x in whole.items()
            if stage_of(name, n_layers, sizes[0]) == places[0]}


def _place(groups: list[list[int]], rank: int) -> tuple[int, int]:
    """(where a rank stands in its group, how many are in it)."""
    line = next(line for line in groups if rank in line)
    return line.index(rank), len(line)


def drawn_gradients(model: nn.Module, seed: int) -> dict[str, Tensor]:
    """Name → a gradient for each parameter, the same for whoever asks; a tied weight has one, under its first name."""
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(p.shape, generator=generator, dtype=p.dtype) for name, p in model.named_parameters()}
