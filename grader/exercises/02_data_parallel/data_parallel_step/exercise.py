"""One step of data parallelism: the big batch's own step, of any split of it."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from grader.calling.training import leave_gradients, make_optimizer, not_held, parameters
from grader.calling.zoo import loss_rows
from grader.exercises.shared.cases import each_group, once_a_group
from grader.exercises.shared.one_process import REPLICAS, batch, train
from grader.exercises.shared.training_cases import SEEDS, model_cases
from grader.exercises.technique.models import given_model
from grader.judging.compare import ANYTHING
from grader.judging.exercise import Case, Draw, Exercise, Slip

from .technique import STEPS

LR = 0.05
_DRIFT = ("Each rank trains on its own rows alone, and the models drift apart: all-reduce every gradient before "
          "optimizer.step().")


def _cases(draw: Draw, grading: bool) -> list[Case]:
    """Batches that do not divide, the last case's smaller than the number of ranks; SGD and AdamW in turn.

    Where a layer is unused, it has a gradient from before, and a rank without rows must not make one either. Of the tied
    model, the optimizer holds the matrices only; all its gradients are cleared and averaged nevertheless.
    """

    def inputs(model: str, n: int, seed: int, rows: int | None = None) -> list[dict[str, Any]]:
        rows = rows or 2 * n + draw.integer(1, max(1, n - 1))
        pairs = [batch(draw, model, rows) for _ in range(STEPS)]
        optimizer = "AdamW" if n % 2 else "SGD"
        stale = {"stale": 1.0} if model in ("mlp", "unused") else {}
        return [{**stale, "model": model, "seed": seed, "batch_size": rows, "optimizer": optimizer, "lr": LR,
                 "matrices only": model == "tied",
                 "xs": [x.tensor_split(n)[r] for x, _ in pairs], "ys": [y.tensor_split(n)[r] for _, y in pairs]}
                for r in range(n)]

    few = Case("4 ranks, 2 rows", tuple(inputs("unused", 4, draw.integer(0, SEEDS), rows=2)))
    return [*model_cases(draw, grading, ("mlp", "tied", "unused", "frozen", "gpt"), inputs), few]


def _right(case: Case, rank: int) -> dict[str, Any]:
    trained = train(case, rank)
    return {"losses": trained["losses"], "detached": True, "parameters": trained["parameters"],
            "others": _together(case, rank, _of_batch)["others"]}


# ── wrong ways ──

CLEARED = (None,) * STEPS  # what is left of gradients before each step
Weight = Callable[[int, int, int], float]  # (rows of a shard, rows of the batch, ranks) → what its mean loss counts


def _trained(case: Case, rank: int, members: Sequence[int], weight: Weight, left: Sequence[float | None] = CLEARED,
             zeros: bool = False, others_left: Sequence[float | None] = ()) -> dict[str, Any]:
    """The parameters after steps on these members' rows, the loss computed after each.

    left: times what was there before a step is there still, None if nothing is; others_left: the same of parameters that
    the optimizer does not hold, if it differs; zeros: parameters without a gradient get one.
    """
    model, n = given_model(case, rank), case.group_size(rank)
    leave_gradients(model, case.inputs[rank].get("stale"))
    optimizer = make_optimizer(case.inputs[rank], model.parameters())
    others, losses = not_held(model, optimizer).keys(), []
    for step in range(STEPS):
        for name, p in model.named_parameters():
            factor = (others_left or left if name in others else left)[step]
            p.grad = None if p.grad is None or factor is None else p.grad * factor
        for inputs in (case.inputs[member] for member in members):
            x, y = inputs["xs"][step], inputs["ys"][step]
            if len(x):
                (loss_rows(model(x), y).mean() * weight(len(x), inputs["batch_size"], n)).backward()
        for p in model.parameters() if zeros else ():
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
        optimizer.step()
        x, y = (torch.cat([of_rank[step] for of_rank in case.peers_inputs(rank, name)]) for name in ("xs", "ys"))
        losses.append(loss_rows(model(x), y).mean().detach())
    return {"losses": losses, "detached": ANYTHING, "parameters": parameters(model), "others": not_held(model, optimizer)}


@once_a_group
def _together(case: Case, rank: int, weight: Weight, left: Sequence[float | None] = CLEARED,
              zeros: bool = False, others_left: Sequence[float | None] = ()) -> dict[str, Any]:
    """Steps on the rows of all members."""
    return _trained(case, rank, case.members(rank), weight, left, zeros, others_left)


def _weighed(id: str, hint: str, weight: Weight, shows: Callable[[Case], bool] = lambda case: True) -> Slip:
    """Gradients are summed over ranks, with other weights."""
    return Slip(id, hint, lambda case, r, right: _steps(_together(case, r, weight)), shows)


def _steps(trained: dict[str, Any]) -> dict[str, Any]:
    """Whatever the losses, and the gradients of parameters that the optimizer does not hold."""
    return trained | {"losses": ANYTHING, "others": ANYTHING}


def _not_cleared(case: Case, rank: int) -> dict[str, Any]:
    """Gradients outside the optimizer at the end, if only the optimizer's own are cleared: each sum is summed again."""
    return _together(case, rank, _of_batch, others_left=(case.group_size(rank),) * STEPS)["others"]


def _left_over(case: Case) -> bool:
    """The optimizer does not hold every parameter."""
    return any(inputs["matrices only"] for inputs in case.inputs)


def _alone(weight: Weight, shows: Callable[[Case], bool] = lambda case: True) -> Slip:
    """No gradient is summed over ranks."""
    return Slip("gradients not reduced", _DRIFT, lambda case, r, right: _steps(_trained(case, r, [r], weight)), shows)


@once_a_group
def _losses(case: Case, rank: int, weight: Weight) -> list[torch.Tensor]:
    """Of right steps: the ranks' mean losses, summed with these weights."""
    model, n = given_model(case, rank), case.group_size(rank)
    optimizer, losses = make_optimizer(case.inputs[rank], model.parameters()), []
    for step in range(STEPS):
        rows = [loss_rows(model(of["xs"][step]), of["ys"][step]) for of in (case.inputs[m] for m in case.members(rank))]
        losses.append(sum(own.mean().detach() * weight(len(own), case.inputs[rank]["batch_size"], n)
                          for own in rows if len(own)))
        optimizer.zero_grad()
        torch.cat(rows).mean().backward()
        optimizer.step()
    return losses


def _told(id: str, hint: str, weight: Weight) -> list[Slip]:
    """Only the loss is wrong. Where a rank has no rows, its mean may be nan, or count nothing."""
    return [Slip(id, hint, lambda case, r, right: right[r] | {"losses": _losses(case, r, weight)}, shows)
            for shows in (lambda case: True, _all_have_rows)]


def _all_have_rows(case: Case) -> bool:
    """No rank takes the mean of nothing."""
    return all(len(x) for inputs in case.inputs for x in inputs["xs"])


def _of_batch(rows: int, batch_size: int, n: int) -> float:
    return rows / batch_size


EXERCISE = Exercise(
    title="A step of data parallelism",
    parameters=("model", "loss_fn", "x", "y", "batch_size", "optimizer", "group"),
    make_cases=_cases,
    oracle=each_group(_right),
    trains=True,
    forbidden=REPLICAS,
    tolerance=1e-6,
    slips=(
        _weighed("shards weighed alike", "Ranks with fewer rows count as much as those with more: the mean of means is not "
                                         "the mean. Sum the losses of your rows and divide by the whole batch_size; then "
                                         "the gradients add up.", lambda rows, size, n: 1 / n, _all_have_rows),
        _weighed("sum for mean", "Each rank takes the mean over its own rows, and the means are summed: the gradient is "
                                 "about n times too large. Divide the sum over your rows by batch_size.",
                 lambda rows, size, n: 1.0, _all_have_rows),
        _weighed("divided by n too", "The gradients are n times too small: batch_size already counts the rows of all ranks, "
                                     "so the sum over ranks is the mean.", lambda rows, size, n: rows / size / n),
        _alone(_of_batch),
        _alone(lambda rows, size, n: 1.0, _all_have_rows),
        Slip("gradients pile up", "The gradients of the last step are still there: call model.zero_grad() before "
                                  "backward().",
             lambda case, r, right: _steps(_together(case, r, _of_batch, left=(case.group_size(r),) * STEPS))),
        Slip("cleared too late", "What the gradients held before the first step is in it: call model.zero_grad() before "
                                 "backward(), not after the step.", lambda case, r, right: _steps(
                                     _together(case, r, _of_batch, left=(case.group_size(r), *CLEARED[1:])))),
        Slip("zeros kept", "A gradient that was cleared to zeros, and that this step does not reach, is still there, and "
                           "AdamW decays its parameter: zero_grad() without set_to_none=False leaves None.",
             lambda case, r, right: _steps(_together(case, r, _of_batch, left=(0.0,) * STEPS))),
        Slip("zeros for none", "A parameter without a gradient has zeros now, and AdamW decays it: where p.grad is None, "
                               "leave it None.",
             lambda case, r, right: _steps(_together(case, r, _of_batch, zeros=True))),
        Slip("others pile up", "Gradients of parameters that the optimizer does not hold are never cleared, so each step "
                               "sums the last step's sums once more: model.zero_grad() clears them too, "
                               "optimizer.zero_grad() doesn't.",
             lambda case, r, right: right[r] | {"others": _not_cleared(case, r)}, _left_over),
        Slip("others cleared at the end", "Gradients of parameters that the optimizer does not hold are gone when the "
                                          "function returns, and another optimizer may still step on them: clear before "
                                          "backward(), not after the step.",
             lambda case, r, right: right[r] | {"others": dict.fromkeys(right[r]["others"])}, _left_over),
        Slip("loss after the step", "The loss is that of the new parameters: return the one that you went backward from.",
             lambda case, r, right: _together(case, r, _of_batch)),
        Slip("loss divided too", "The parameters are right, the loss is n times too small: each rank's part is divided by "
                                 "the whole batch_size already, so their sum is the mean.",
             lambda case, r, right: right[r] | {"losses": [loss / case.group_size(r) for loss in right[r]["losses"]]}),
        Slip("loss not divided", "The parameters are right, the loss is the sum over all rows: divide it by batch_size, "
                                 "once.",
             lambda case, r, right: right[r] | {
                 "losses": [loss * case.inputs[r]["batch_size"] for loss in right[r]["losses"]]}),
        *_told("loss of means", "The parameters are right, the loss is the mean of the ranks' means, in which a rank with "
                                "fewer rows counts as much as the others: sum over the ranks what your rows add to the "
                                "batch's mean.", lambda rows, size, n: 1 / n),
        *_told("means summed", "The parameters are right, the loss is the sum of the ranks' own means, about n times too "
                               "large: what a rank adds to it is the sum over its rows, divided by batch_size.",
               lambda rows, size, n: 1.0),
    ),
)
