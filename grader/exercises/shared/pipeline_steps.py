"""One training step of a pipeline by one process, and slips that show in its gradients."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from grader.calling.pipelining import WatchedStage, mean_loss
from grader.judging.compare import ANYTHING
from grader.judging.exercise import Case, Slip

STEP_PARAMETERS = ("stage", "x_BD", "y_BO", "loss_fn", "n_micro", "like_MD", "group")

Applied = Callable[[int, int, int, int], int]


def stages_of(case: Case, rank: int) -> list[WatchedStage]:
    """All stages of `rank`'s group, in order."""
    return [WatchedStage(layers) for layers in case.peers_inputs(rank, "layers")]


def output_of(stages: Sequence[WatchedStage], x: Tensor) -> Tensor:
    for stage in stages:
        x = stage(x)
    return x


def plain_step(case: Case, rank: int) -> dict[str, Any]:
    """The mean loss of the whole batch through all stages, and the gradients of `rank`'s stage."""
    x, y = _batch(case, rank)
    gradients, loss = _gradients_of_mean(case, rank, x, y)
    return {"gradients": gradients} | ({} if case.inputs[rank]["y"] is None else {"loss": loss})


def _batch(case: Case, rank: int) -> tuple[Tensor, Tensor]:
    members = case.members(rank)
    return case.inputs[members[0]]["x"], case.inputs[members[-1]]["y"]


def _gradients_of_mean(case: Case, rank: int, x: Tensor, y: Tensor) -> tuple[list[Tensor], Tensor]:
    stages = stages_of(case, rank)
    loss = mean_loss(output_of(stages, x), y)
    loss.backward()
    return _gradients(stages[case.group_rank(rank)]), loss.detach()


def _gradients(stage: WatchedStage) -> list[Tensor]:
    return [parameter.grad for parameter in stage.parameters()]


# ── slips ──


def other_gradients(id: str, hint: str, wrong: Callable[[Case, int, list[Tensor]], list[Tensor]]) -> Slip:
    """Gradients wrong(case, rank, right gradients); the loss is left open."""
    return Slip(id, hint, lambda case, rank, right: dict.fromkeys(right[rank], ANYTHING) | {
        "gradients": wrong(case, rank, right[rank]["gradients"])})


def mixed_up(id: str, hint: str, applied: Applied) -> Slip:
    """Gradients that meet the activations of other micro-batches, see `_mixed`."""
    return other_gradients(id, hint, lambda case, rank, right: _mixed(case, rank, applied))


def _mixed(case: Case, rank: int, applied: Applied) -> list[Tensor]:
    """applied(stages, stage, micro-batches, k): to which micro-batch a stage applies the k-th gradient that comes."""
    stages, m = stages_of(case, rank), case.inputs[rank]["n_micro"]
    x, y = _batch(case, rank)
    xs, kept = list(x.chunk(m)), []
    for stage in stages:
        inputs = [x.detach().requires_grad_() for x in xs]
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


def _n_micro(case: Case, rank: int) -> int:
    return case.inputs[rank]["n_micro"]


def _last_micro_batch(case: Case, rank: int, right: list[Tensor]) -> list[Tensor]:
    m = _n_micro(case, rank)
    gradients, _ = _gradients_of_mean(case, rank, *(whole.chunk(m)[-1] for whole in _batch(case, rank)))
    return [gradient / m for gradient in gradients]


def _divided_at_each_border(case: Case, rank: int, right: list[Tensor]) -> list[Tensor]:
    borders = len(case.members(rank)) - 1 - case.group_rank(rank)
    return [gradient / _n_micro(case, rank) ** borders for gradient in right]


def _of_own_output(case: Case, rank: int, right: list[Tensor]) -> list[Tensor]:
    """Each stage but the last uses the sum of its own output as its loss."""
    stages, place = stages_of(case, rank), case.group_rank(rank)
    if place == len(stages) - 1:
        return right
    stages[place](output_of(stages[:place], _batch(case, rank)[0]).detach()).sum().backward()
    return _gradients(stages[place])


DIVIDED_TWICE = ("The gradients are n_micro times too small: divide by the number of micro-batches once, at the loss. The "
                 "gradients that travel carry the factor already.")

GRADIENT_SLIPS = (
    other_gradients("not divided", "The gradients are n_micro times too large: the loss is the mean over micro-batches, so "
                                   "each one's loss is divided by their number before backward.",
                    lambda case, rank, right: [gradient * _n_micro(case, rank) for gradient in right]),
    other_gradients("divided twice", DIVIDED_TWICE,
                    lambda case, rank, right: [gradient / _n_micro(case, rank) for gradient in right]),
    other_gradients("divided twice", DIVIDED_TWICE, _divided_at_each_border),
    other_gradients("last micro-batch only", "Only the last micro-batch is in the gradients: those of all micro-batches add "
                                             "up, so never clear or overwrite them in between.", _last_micro_batch),
    other_gradients("local loss", "Each stage went backward from its own output, as if that were a loss. Only the last "
                                  "stage has the loss; the others use the gradient that they receive: "
                                  "output.backward(gradient).",
                    _of_own_output),
)
