"""Micro-batches of any sizes: each row counts the same."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.exercises.shared.hunted import LR, UNTOUCHED, Inputs, Trained, hunted, of, worlds
from grader.judging.exercise import Draw
from utils.models.hunted import small_mlp
from utils.models.hunted_plain import Notes, micro_shares, plain_micro_batches, trained

SIZES = {3: (8, 8), 2: (3, 9, 4), 1: (4, 1)}  # of the micro-batches, by the number of ranks; ROWS in all, but of a lone one
Weigh = Callable[[int, int, int], float]  # (rows of a micro-batch, rows of all, micro-batches) -> what its mean counts


def _inputs(n: int, draw: Draw) -> Inputs:
    return [{"steps": micro_shares(1, SIZES[n], seed=draw.seed())[0], "lr": LR} for _ in range(n)]


def _plain(inputs: Inputs) -> list[Notes]:
    return plain_micro_batches(of(inputs, "steps"), LR)


def _weighed(weigh: Weigh, noted: Weigh = lambda rows, n_rows, count: rows / n_rows, last_only: bool = False) -> Trained:
    """One process whose micro-batches count as weigh() says; their losses are noted as noted() says."""

    def train(inputs: Inputs) -> list[Notes]:
        model, shares = small_mlp(), of(inputs, "steps")

        def losses(step: int) -> tuple[Tensor, list[Tensor]]:
            trains, notes = [], []
            for share in shares:
                micros = share[step]
                n_rows, means = sum(len(x) for x, _ in micros), [F.mse_loss(model(x), y) for x, y in micros]
                parts = [(len(x), n_rows, len(micros)) for x, _ in micros]
                counted = [weigh(*part) * mean for part, mean in zip(parts, means, strict=True)]
                trains.append(counted[-1] if last_only else torch.stack(counted).sum())
                notes.append(torch.stack([noted(*part) * mean for part, mean in zip(parts, means, strict=True)]).sum())
            return torch.stack(trains).mean(), notes

        return trained(model, len(shares), len(shares[0]), losses, LR)

    return train


CASES = worlds(_inputs, (3,), (1, 2))

EXERCISE = hunted("Case 1: a quarter of the learning rate", ("steps", "lr", "group"), CASES, _plain, {
    UNTOUCHED: ("Your program still does what the given one does. In step 0 all losses agree with the plain process, and "
                "the gradients are the first results that don't. Read their factor in the table, and see how it changes "
                "with another number of micro-batches.",
                _weighed(lambda rows, n_rows, count: 1.0)),
    "counted alike": ("Each micro-batch counts the same, also where they differ in size: the last, small one then counts as "
                      "much as the others. Each row should.", _weighed(lambda rows, n_rows, count: 1 / count)),
    "loss scaled twice": ("The gradients are right. But the loss that is noted was scaled twice: what you scale for "
                          "backward is weighted once more in the sum.",
                          _weighed(lambda rows, n_rows, count: rows / n_rows,
                                   lambda rows, n_rows, count: (rows / n_rows) ** 2)),
    "only the last": ("Only the last micro-batch is trained: its gradients are to be added to those before. They are "
                      "cleared once a step, not once a micro-batch.",
                      _weighed(lambda rows, n_rows, count: 1.0, last_only=True)),
    "last of its share": ("Only the last micro-batch is trained, with the right weight: gradients are cleared once a step, "
                          "not once a micro-batch.",
                          _weighed(lambda rows, n_rows, count: rows / n_rows, last_only=True)),
})
