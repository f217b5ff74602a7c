"""Pipelines of small layers, one stage a rank: cases, one training step by one process, slips that show in its gradients."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from grader.calling.pipelining import WatchedStage, mean_loss
from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.shared.one_process import TOLERANCE
from grader.judging.compare import ANYTHING
from grader.judging.exercise import TECHNIQUE, VALUES, Case, Draw, Exercise, Slip

Size = tuple[int, int, int, str]  # (ranks, micro-batches, rows of one, dtype)
Applied = Callable[[int, int, int, int], int]  # (stages, stage, micro-batches, k) -> a micro-batch


def pipeline_cases(sizes: Sequence[Size], for_grading: Callable[[int], Sequence[Size]],
                   without: str = "") -> Callable[[Draw, bool], Sequence[Case]]:
    """A case for each size, and one in two groups; for_grading(a number that is drawn): more sizes.

    without: the name of an input that the exercise does not have.
    """

    def make_cases(draw: Draw, grading: bool) -> Sequence[Case]:
        def inputs(*size) -> list[dict[str, Any]]:
            of_ranks = _inputs(draw, *size)
            return [{name: value for name, value in own.items() if name != without} for own in of_ranks]

        many = draw.integer(5, 7)  # drawn in any case: what follows is drawn from the same numbers
        cases = [Case(f"{ranks(n)}, {m} micro-batch{'es' * (m > 1)} of {rows}{'' if dtype == 'float64' else ', ' + dtype}",
                      tuple(inputs(n, m, rows, dtype)))
                 for n, m, rows, dtype in (*sizes, *(for_grading(many) if grading else ()))]
        return [*cases, group_case(lambda n: inputs(n, 4, 2, "float64"))]

    return make_cases


def _inputs(draw: Draw, n: int, n_micro: int, rows: int, dtype: str) -> list[dict[str, Any]]:
    """Inputs of n stages of one or two layers, of odd widths: x for the first, y for the last, `like` for what comes in."""

    def numbers(*shape: int) -> Tensor:
        return (draw.tensor(*shape, dtype=torch.float64) / 50).to(getattr(torch, dtype))

    def layers(*widths: int) -> list[list[Tensor]]:
        return [[numbers(outputs, inputs), numbers(outputs)] for inputs, outputs in itertools.pairwise(widths)]

    widths = [draw.integer(3, 6) for _ in range(n + 1)]
    stages = [[widths[r], *([widths[r] + 1] if r == 1 else []), widths[r + 1]] for r in range(n)]
    inputs = [{"layers": layers(*stage), "x": None, "y": None, "n_micro": n_micro,
               "like": torch.zeros(rows, stage[0], dtype=getattr(torch, dtype))} for stage in stages]
    inputs[0]["x"] = numbers(n_micro * rows, widths[0])
    if dtype == "float32":  # what the first stage gets may be tokens
        inputs[0]["x"] = (inputs[0]["x"] * 50).round().long()
    inputs[-1]["y"] = numbers(n_micro * rows, widths[-1])
    return inputs


# ── a training step ──



def step_exercise(title: str, make_cases: Callable[[Draw, bool], Sequence[Case]],
                  mixed_up: tuple[str, str, Applied]) -> Exercise:
    """A training step; mixed_up: (id, hint, to which micro-batch a stage wrongly applies the k-th gradient that comes)."""
    id, hint, applied = mixed_up
    return Exercise(
        title=title,
        parameters=("stage", "x_BD", "y_BO", "loss_fn", "n_micro", "like_bD", "group"),
        make_cases=make_cases,
        trains=True,
        oracle=each_rank(_plain_step),
        forbidden=("torch.distributed.pipelining",),
        tolerance=TOLERANCE,
        points={VALUES: 4, TECHNIQUE: 4},
        slips=(_gradients_are(id, hint, lambda case, rank, right: _mixed(case, rank, applied)), *GRADIENT_SLIPS),
    )


def stages_of(case: Case, rank: int) -> list[WatchedStage]:
    """All stages of `rank`'s group, in order."""
    return [WatchedStage(layers) for layers in case.peers_inputs(rank, "layers")]


def _plain_step(case: Case, rank: int) -> dict[str, Any]:
    """The gradients of `rank`'s stage; on the last stage the mean loss of the whole batch."""
    x, y = _batch(case, rank)
    gradients, loss = _gradients_of_mean(case, rank, x, y)
    last = case.inputs[rank]["y"] is not None
    return {"gradients": gradients} | ({"loss": loss, "detached": True} if last else {"loss": None})


def _batch(case: Case, rank: int) -> tuple[Tensor, Tensor]:
    members = case.members(rank)
    return case.inputs[members[0]]["x"], case.inputs[members[-1]]["y"]


def _gradients_of_mean(case: Case, rank: int, x: Tensor, y: Tensor, exchanged: bool = False) -> tuple[list[Tensor], Tensor]:
    stages = stages_of(case, rank)
    output = nn.Sequential(*stages)(x)
    loss = mean_loss(y, output) if exchanged else mean_loss(output, y)
    loss.backward()
    return _gradients(stages[case.group_rank(rank)]), loss.detach()


def _gradients(stage: WatchedStage) -> list[Tensor]:
    return [parameter.grad for parameter in stage.parameters()]


def _gradients_are(id: str, hint: str, wrong: Callable[[Case, int, list[Tensor]], list[Tensor]]) -> Slip:
    """Gradients wrong(case, rank, right gradients); the loss is left open."""
    return Slip(id, hint, lambda case, rank, right: dict.fromkeys(right[rank], ANYTHING) | {
        "gradients": wrong(case, rank, right[rank]["gradients"])})


def _mixed(case: Case, rank: int, applied: Applied) -> list[Tensor]:
    """Gradients that meet the activations of other micro-batches."""
    stages, m = stages_of(case, rank), case.inputs[rank]["n_micro"]
    x, y = _batch(case, rank)
    xs, kept = list(x.chunk(m)), []
    for stage in stages:
        inputs = [x.detach().requires_grad_(x.is_floating_point()) for x in xs]
        xs = [stage(x) for x in inputs]
        kept.append((inputs, xs))
    losses = [mean_loss(output, y) / m for output, y in zip(xs, y.chunk(m), strict=True)]
    coming: list[Tensor | None] = [None] * m
    for place, (inputs, outputs) in reversed(list(enumerate(kept))):
        for k, micro in enumerate(applied(len(stages), place, m, k) for k in range(m)):
            ends = losses if place == len(stages) - 1 else outputs
            ends[micro].backward(coming[k])
            coming[k] = inputs[micro].grad
    return _gradients(stages[case.group_rank(rank)])


def _divided(case: Case, rank: int, gradients: Sequence[Tensor], times: int = 1) -> list[Tensor]:
    return [gradient / case.inputs[rank]["n_micro"] ** times for gradient in gradients]


def _last_micro_batch(case: Case, rank: int, right: list[Tensor]) -> list[Tensor]:
    last = (whole.chunk(case.inputs[rank]["n_micro"])[-1] for whole in _batch(case, rank))
    return _divided(case, rank, _gradients_of_mean(case, rank, *last)[0])


def _divided_at_each_border(case: Case, rank: int, right: list[Tensor]) -> list[Tensor]:
    return _divided(case, rank, right, case.group_size(rank) - 1 - case.group_rank(rank))


def _of_own_output(case: Case, rank: int, right: list[Tensor]) -> list[Tensor]:
    """Each stage but the last uses the sum of its own output as its loss."""
    stages, place = stages_of(case, rank), case.group_rank(rank)
    if place == len(stages) - 1:
        return right
    stages[place](nn.Sequential(*stages[:place])(_batch(case, rank)[0]).detach()).sum().backward()
    return _gradients(stages[place])


DIVIDED_TWICE = ("The gradients are n_micro times too small: divide by the number of micro-batches once, at the loss. The "
                 "gradients that travel carry the factor already.")

OTHER_ROWS = ("Outputs meet the wrong rows of y: cut y as x was cut, and give the k-th micro-batch's output the k-th piece.")


def _other_rows(pick: Callable[[Sequence[Tensor]], Sequence[Tensor]]) -> Slip:
    """Each micro-batch's output is compared with another piece of y."""

    def gradients(case: Case, rank: int, right: list[Tensor]) -> list[Tensor]:
        x, y = _batch(case, rank)
        return _gradients_of_mean(case, rank, x, torch.cat([*pick(y.chunk(case.inputs[rank]["n_micro"]))]))[0]

    return _gradients_are("other rows of y", OTHER_ROWS, gradients)


GRADIENT_SLIPS = (
    _gradients_are("arguments exchanged", "loss_fn is called with its arguments exchanged: the output comes first, then y.",
                   lambda case, rank, right: _gradients_of_mean(case, rank, *_batch(case, rank), exchanged=True)[0]),
    _other_rows(lambda ys: ys[::-1]),
    _other_rows(lambda ys: ys[:1] * len(ys)),
    _other_rows(lambda ys: ys[-1:] + ys[:-1]),
    _gradients_are("divided by the stages", "The loss is divided by the number of stages: divide by the number of "
                                            "micro-batches.",
                   lambda case, rank, right: [gradient * case.inputs[rank]["n_micro"] / case.group_size(rank)
                                              for gradient in right]),
    _gradients_are("not divided", "The gradients are n_micro times too large: the loss is the mean over micro-batches, so "
                                  "each one's loss is divided by their number before backward.",
                   lambda case, rank, right: [gradient * case.inputs[rank]["n_micro"] for gradient in right]),
    _gradients_are("divided twice", DIVIDED_TWICE, _divided),
    _gradients_are("divided twice", DIVIDED_TWICE, _divided_at_each_border),
    _gradients_are("last micro-batch only", "Only the last micro-batch is in the gradients: those of all micro-batches add "
                                            "up, so never clear or overwrite them in between.", _last_micro_batch),
    _gradients_are("local loss", "Each stage went backward from its own output, as if that were a loss. Only the last "
                                 "stage has the loss; the others use the gradient that they receive: "
                                 "output.backward(gradient).", _of_own_output),
)
