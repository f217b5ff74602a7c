"""A LayerNorm that is whole on all ranks, and used on each one's positions."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.exercises.shared.hunted import LR, UNTOUCHED, Combine, Inputs, Trained, hunted, of, simulated, total_of, worlds
from grader.judging.exercise import Draw
from utils.models.hunted import SequenceMLP
from utils.models.hunted_plain import Notes, Tensors, plain_sequence, sequence_pieces


def _inputs(n: int, draw: Draw) -> Inputs:
    return [{"batches": sequence_pieces(1, seed=draw.seed())[0], "lr": LR} for _ in range(n)]


def _plain(inputs: Inputs) -> list[Notes]:
    return plain_sequence(of(inputs, "batches"), LR)


def _each(use: Callable[[str, Tensor, Tensor, int], Tensor]) -> Trained:
    """use(name, own gradient, sum over ranks, n) → what a rank uses."""

    def train(inputs: Inputs) -> list[Notes]:
        def combine(gradients: list[Tensors], rank: int) -> Tensors:
            return {name: use(name, own, total_of(gradients, name), len(inputs)) if name.startswith("norm") or use is _all
                    else own for name, own in gradients[rank].items()}

        return _in_pieces(inputs, combine)

    return train


def _all(name: str, own: Tensor, total: Tensor, n: int) -> Tensor:
    return total


def _all_averaged(inputs: Inputs) -> list[Notes]:
    return _in_pieces(inputs, lambda gradients, rank: {
        name: total_of(gradients, name) / len(inputs) for name in gradients[rank]})


def _in_pieces(inputs: Inputs, combine: Combine) -> list[Notes]:
    n, pieces = len(inputs), of(inputs, "batches")
    models = [SequenceMLP(rank, n) for rank in range(n)]

    def losses(step: int) -> tuple[Tensor, list[Tensor]]:
        xs, ys = zip(*(piece[step] for piece in pieces), strict=True)
        h_SD = torch.cat([model.norm(x_PD) for model, x_PD in zip(models, xs, strict=True)])
        z_SD = torch.stack([F.gelu(h_SD @ model.up) @ model.down for model in models]).sum(0)
        own = [((x_PD + z_PD - y_PD) ** 2).sum() / (n * y_PD.numel())
               for x_PD, z_PD, y_PD in zip(xs, z_SD.chunk(n), ys, strict=True)]
        return torch.stack(own).sum(), own

    return simulated(models, len(pieces[0]), losses, combine)


EXERCISE = hunted("Case 10: copies that drift", ("batches", "lr", "group"), worlds(_inputs, (4,), (1, 2)), _plain, {
    UNTOUCHED: ("The norm's gradients are those of each rank's own positions: the ranks change their copies differently. "
                "All positions together have used it.", _each(lambda name, own, total, n: own)),
    "mean for sum": ("The norm's gradients are n times too small. The ranks' losses are shares of one mean already: their "
                     "gradients add up, and nothing is divided.", _each(lambda name, own, total, n: total / n)),
    "all reduced": ("up and down are reduced as well: of these each rank has another part, and its gradient is complete. "
                    "Only what is whole on all ranks needs it.", _each(_all)),
    "all averaged": ("Everything is averaged over ranks, as in data parallelism. Here only what is whole on all ranks needs "
                     "the others' gradients, and it needs their sum.", _all_averaged),
    "weight only": ("The norm's weight is right, its bias is not: both are whole on all ranks.",
                    _each(lambda name, own, total, n: total if name.endswith("weight") else own)),
    "bias only": ("The norm's bias is right, its weight is not: both are whole on all ranks.",
                  _each(lambda name, own, total, n: total if name.endswith("bias") else own)),
})
