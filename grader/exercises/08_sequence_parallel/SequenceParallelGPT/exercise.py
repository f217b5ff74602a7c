"""A GPT whose ranks each have a shard of every sequence: trained to the plain one's losses and parameters."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from grader.calling.sequences import gradients_by_name, make_gpt
from grader.exercises.shared.cases import group_case, ranks
from grader.exercises.shared.sealed_parts import sealed_parts
from grader.exercises.shared.sequence_inputs import cut_by_name, own_gradients, own_piece
from grader.exercises.shared.split_inputs import divides, or_refused
from grader.judging.compare import ANYTHING
from grader.judging.exercise import Case, Draw, Exercise, Slip, Wrong
from utils.models.tiny import next_byte_loss

STEPS, LR = 2, 0.1


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, s: int, b: int, dim: int, layers: int, heads: int) -> tuple[dict[str, Any], ...]:
        """The second step's sequences are shorter, by a position a rank."""
        tokens = [[draw.tensor(s - n * step, b, dtype=torch.int64).abs() for step in range(STEPS)] for _ in range(2)]
        common = {"dim": dim, "heads": heads, "layers": layers, "length": s + 1, "model_seed": draw.seed(),
                  "lr": LR, "tokens": tokens[0], "targets": tokens[1],
                  "refused": [s, n] if s % n else None}
        return (common,) * n

    sizes = [(1, 5, 2, 4, 1, 2), (2, 6, draw.integer(1, 3), 8, 2, 2), (4, 8, 2, 12, 1, 4)]
    sizes += [(3, 9, 2, 6, 2, 3), (4, 8, 1, 64, 2, 4)] if grading else []  # in the last one logits are not the most of it
    cases = [Case(f"{ranks(n)}, {s} positions, {layers} layer{'s' * (layers > 1)}, {dim} wide",
                  inputs(n, s, b, dim, layers, heads)) for n, s, b, dim, layers, heads in sizes]
    if grading:
        cases.append(Case("4 ranks, sealed",
                          tuple(sealed_parts(own, make_gpt(own), 4, "model_seed") for own in inputs(4, 8, 1, 24, 1, 4))))
    of_group = {n: inputs(n, 6, 1, 12, 1, 6) for n in (2, 3)}
    return [*cases, Case("2 ranks, 5 positions: refused", inputs(2, 5, 1, 4, 1, 2)),
            group_case(lambda n: of_group[n], "6 positions")]


# ── one process with whole sequences ──


def _model(case: Case, rank: int) -> nn.Module:
    return make_gpt(case.inputs[rank])


def _pass(case: Case, rank: int, model: nn.Module, step: int = 0) -> Tensor:
    """One step's forward and backward; this rank's part of the loss, that of its positions."""
    inputs = case.inputs[rank]
    rows = next_byte_loss(model(inputs["tokens"][step]), inputs["targets"][step])
    rows.mean().backward()
    return own_piece(case, rank, rows.detach()).sum() / len(rows)


def _right(case: Case, rank: int) -> dict[str, Any]:
    model, losses, first = _model(case, rank), [], {}
    optimizer = torch.optim.SGD(model.parameters(), lr=case.inputs[rank]["lr"])
    for step in range(STEPS):
        optimizer.zero_grad()
        losses.append(_pass(case, rank, model, step))
        first = first or gradients_by_name(model)
        optimizer.step()
    return {"losses": losses, "gradients": cut_by_name(case, rank, first),
            "parameters": cut_by_name(case, rank, {name: p.detach() for name, p in model.named_parameters()})}


# ── slips, seen in the first step ──


_slip = partial(Slip, shows=divides)  # what is to be refused shows none


def _first_loss(loss: Tensor) -> dict[str, Any]:
    return {"losses": [loss, *[ANYTHING] * (STEPS - 1)], "gradients": ANYTHING, "parameters": ANYTHING}


def _positions_from_0(case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    inputs, n, model = case.inputs[rank], case.group_size(rank), _model(case, rank)
    length, rows = len(inputs["tokens"][0]), model.positions.weight.data
    rows[:length] = rows[:length // n].repeat(n, 1)
    return _first_loss(_pass(case, rank, model))


def _not_reduced(layers: Sequence[str], of_blocks: Sequence[str]) -> Wrong:
    """The gradients of some layers, and of some in each block, are those of a rank's own positions."""

    def names(case: Case, rank: int) -> Iterable[str]:
        return *layers, *(f"blocks.{i}.{name}" for i in range(case.inputs[rank]["layers"]) for name in of_blocks)

    def wrong(case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
        own = own_gradients(case, rank, _model(case, rank), names(case, rank), partial(_pass, case, rank))
        return _first_loss(right[rank]["losses"][0]) | {"gradients": right[rank]["gradients"] | own}

    return wrong


def _gradients_times(factor: Callable[[int], float], case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    times = factor(case.group_size(rank))
    gradients = {name: times * gradient for name, gradient in right[rank]["gradients"].items()}
    return _first_loss(right[rank]["losses"][0]) | {"gradients": gradients}


def _without(layer: str, case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    """The first loss of a model in which this layer is left out (a norm), or adds nothing (the positions)."""
    model = _model(case, rank)
    if layer == "norm":
        model.norm = nn.Identity()
    else:
        model.positions.weight.data.zero_()
    return _first_loss(_pass(case, rank, model))


WHOLE, WHOLE_OF_BLOCKS = ("embedding", "positions", "norm", "head"), ("attention_norm", "mlp_norm", "out", "down")


EXERCISE = Exercise(
    title="A GPT in shards",
    parameters=("model", "group"),
    forbidden=("torch.distributed.tensor",),
    make_cases=_cases,
    oracle=or_refused(_right),
    trains=True,
    measured=True,
    tolerance=1e-6,
    points={"values": 4, "technique": 4},
    slips=(
        _slip("whole loss", "Every rank returns the loss of all positions: it has the logits of its own only, and its "
                            "loss is their sum over the number of all positions. The ranks' parts add up to the mean.",
              lambda case, rank, right: _first_loss(sum(right[member]["losses"][0] for member in case.members(rank)))),
        _slip("mean of the piece", "Each rank's loss is the mean over its own positions, n times too large: divide the "
                                   "sum by the number of all positions, so that the ranks' parts add up to the mean.",
              lambda case, rank, right: _first_loss(right[rank]["losses"][0] * case.group_size(rank))),
        _slip("positions from 0", "Every rank counts its positions from 0: rank r's shard begins at r·S/n.",
              _positions_from_0),
        _slip("blocks not reduced", "The embedding's, the last norm's and the head's gradients are right, the blocks' own "
                                    "norms and biases are not: call each block's reduce_gradients, or reduce them all "
                                    "here.", _not_reduced((), WHOLE_OF_BLOCKS)),
        _slip("nothing reduced", "The cut weights' gradients are right; of all that every rank has whole the gradients are "
                                 "those of its own positions. reduce_gradients() has to sum them over ranks.",
              _not_reduced(WHOLE, WHOLE_OF_BLOCKS)),
        _slip("last norm forgotten", "The losses are those of a model without its last norm: the head takes norm(x).",
              partial(_without, "norm")),
        _slip("positions forgotten", "The losses are those of a model without positions: add positions(own numbers) to the "
                                     "embedding.", partial(_without, "positions")),
        _slip("embedding not reduced", "The blocks are right; embedding, positions, last norm and head, whole on every "
                                       "rank and used on its positions only, have gradients that must be summed too.",
              _not_reduced(WHOLE, ())),
        *(_slip(f"{layer} not reduced alone", f"All gradients are right but that of `{layer}`: every rank has it whole "
                f"and uses it on its own positions only, so its gradient must be summed too.", _not_reduced((layer,), ()))
          for layer in WHOLE),
        _slip("divided by the sequence", "Each rank's loss is as many times too large as the batch has sequences: the "
                                         "mean is over all S·B positions.", lambda case, rank, right: _first_loss(
                                             right[rank]["losses"][0] * case.inputs[rank]["tokens"][0].shape[1])),
        *(_slip("gradients scaled", "Every gradient is n times too large or too small.", partial(_gradients_times, factor))
          for factor in (lambda n: n, lambda n: 1 / n)),
    ),
)
