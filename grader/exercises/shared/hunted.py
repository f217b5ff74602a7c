"""What the cases of the bug hunt share: cases and oracle from what a group's ranks get, and what half a repair notes.

A program returns one note a step on each rank (utils.models.hunted.note). The right ones come from one plain process; wrong
ones too, from models of which each stands for a rank.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from grader.exercises.shared.cases import each_rank, ranks
from grader.judging.exercise import Case, Draw, Exercise, Slip
from utils.models.hunted import note, small_mlp
from utils.models.hunted_plain import Notes, Tensors, plain_replicas, shares

LR = 0.1
ROWS = 16  # of a rank's batch: to send it to the others takes more than any repaired program may send
PLAIN = "utils.models.hunted_plain"
TOLERANCE = 1e-9
GROUPS = ((1, 3), (0, 2))
UNTOUCHED = "untouched"
Inputs = list[dict[str, Any]]  # of the ranks that work together
Trained = Callable[[Inputs], list[Notes]]
Combine = Callable[[list[Tensors], int], Tensors]  # (gradients of each rank, rank) -> those that it uses


def shared_batches(n: int, draw: Draw) -> Inputs:
    """What n data parallel ranks get: each its share of every step's batch, drawn from a seed of its own."""
    return [{"batches": shares(1, rows=ROWS, seed=draw.seed())[0], "lr": LR} for _ in range(n)]


def hunted(title: str, parameters: tuple[str, ...], make_cases: Callable[[Draw, bool], Sequence[Case]], plain: Trained,
           slips: Mapping[str, tuple[str, Trained]]) -> Exercise:
    """An exercise whose oracle is plain(inputs of a group) → each rank's notes. slips: id → (hint, the same, gone wrong)."""
    return Exercise(title, parameters, make_cases, each_rank(_of_rank(plain)), tolerance=TOLERANCE, forbidden=(PLAIN,),
                    slips=tuple(_slip(id, hint, wrong) for id, (hint, wrong) in slips.items()))


def one_process(inputs: Inputs) -> list[Notes]:
    """What data parallel ranks should note."""
    return plain_replicas(of(inputs, "batches"), LR)


def of_replicas(title: str, slips: Mapping[str, tuple[str, Trained]]) -> Exercise:
    """The same of plain data parallelism."""
    return hunted(title, ("batches", "lr", "group"), worlds(shared_batches, (3,), (1, 2)), one_process, slips)


def _slip(id: str, hint: str, wrong: Trained) -> Slip:
    of_rank = _of_rank(wrong)
    return Slip(id, hint, lambda case, rank, right: of_rank(case, rank))


def _of_rank(compute: Trained) -> Callable[[Case, int], Notes]:
    """Computed once a group."""

    @functools.lru_cache(maxsize=32)
    def of_group(case: Case, members: tuple[int, ...]) -> list[Notes]:
        return compute([case.inputs[member] for member in members])

    return lambda case, rank: of_group(case, case.members(rank))[case.group_rank(rank)]


def worlds(inputs: Callable[[int, Draw], Inputs], sizes: Sequence[int], for_grading: Sequence[int] = (),
           groups: bool = True) -> Callable[[Draw, bool], list[Case]]:
    """Cases of so many ranks, then two groups of two. inputs(n, draw): what n ranks that work together get."""

    def make_cases(draw: Draw, grading: bool) -> list[Case]:
        cases = [Case(ranks(n), tuple(inputs(n, draw))) for n in (*sizes, *(for_grading if grading else ()))]
        if groups:
            of_rank = {rank: own for members in GROUPS for rank, own in zip(members, inputs(2, draw), strict=True)}
            cases.append(Case("groups (1,3) and (0,2)", tuple(of_rank[rank] for rank in sorted(of_rank)), GROUPS))
        return cases

    return make_cases


def of(inputs: Inputs, name: str) -> list[Any]:
    """Each rank's value of one parameter."""
    return [own[name] for own in inputs]


# ── programs that went wrong, in one process ──


def replicas(inputs: Inputs, combine: Combine,
             after: Callable[[Sequence[nn.Module]], None] = lambda models: None) -> list[Notes]:
    """Data parallel ranks, each with a small MLP and its share of each batch.

    combine: which gradients a rank uses. after: what happens to the weights after each step.
    """
    models, shares = [small_mlp() for _ in inputs], of(inputs, "batches")
    notes: list[Notes] = [[] for _ in models]
    for step in range(len(shares[0])):
        losses = [nn.functional.mse_loss(model(share[step][0]), share[step][1])
                  for model, share in zip(models, shares, strict=True)]
        for model, loss in zip(models, losses, strict=True):
            model.zero_grad()
            loss.backward()
        own = [{name: p.grad.clone() for name, p in model.named_parameters()} for model in models]
        for rank, model in enumerate(models):
            for name, gradient in combine(own, rank).items():
                model.get_parameter(name).grad = gradient.clone()
        with torch.no_grad():
            for model in models:
                for p in model.parameters():
                    p -= LR * p.grad
            after(models)
        for model, of_rank, loss in zip(models, notes, losses, strict=True):
            of_rank.append(note(model, loss))
    return notes


def total_of(gradients: list[Tensors], name: str) -> Tensor:
    """The sum over ranks of one gradient."""
    return torch.stack([of_rank[name] for of_rank in gradients]).sum(0)


def scaled(notes: list[Notes], loss: float = 1.0, gradients: float = 1.0) -> list[Notes]:
    """The same notes, but for losses and gradients that are so many times as large."""
    return [[{"loss": one["loss"] * loss, "gradients": {name: g * gradients for name, g in one["gradients"].items()},
              "weights": one["weights"]} for one in of_rank] for of_rank in notes]
