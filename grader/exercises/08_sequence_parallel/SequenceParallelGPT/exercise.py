"""A GPT whose ranks each have a shard of every sequence: trained to the plain one's losses and parameters."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from grader.calling.sequences import gradients_by_name, make_gpt
from grader.exercises.shared.cases import group_case, ranks
from grader.exercises.shared.sealed_parts import sealed_parts
from grader.exercises.shared.sequence_inputs import cut_by_name, own_piece
from grader.exercises.shared.split_inputs import or_refused
from grader.judging.exercise import Case, Draw, Exercise
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


def _pass(case: Case, rank: int, model: nn.Module, step: int) -> Tensor:
    """One step's forward and backward; this rank's part of the loss, that of its positions."""
    inputs = case.inputs[rank]
    rows = next_byte_loss(model(inputs["tokens"][step]), inputs["targets"][step])
    rows.mean().backward()
    return own_piece(case, rank, rows.detach()).sum() / len(rows)


def _right(case: Case, rank: int) -> dict[str, Any]:
    model, losses, first = make_gpt(case.inputs[rank]), [], {}
    optimizer = torch.optim.SGD(model.parameters(), lr=case.inputs[rank]["lr"])
    for step in range(STEPS):
        optimizer.zero_grad()
        losses.append(_pass(case, rank, model, step))
        first = first or gradients_by_name(model)
        optimizer.step()
    return {"losses": losses, "gradients": cut_by_name(case, rank, first),
            "parameters": cut_by_name(case, rank, {name: p.detach() for name, p in model.named_parameters()})}


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
)
