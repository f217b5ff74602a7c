"""One step of data parallelism: the big batch's own step, of any split of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from grader.calling.training import make_optimizer, parameters
from grader.calling.zoo import build, loss_rows
from grader.exercises.shared.cases import each_group
from grader.exercises.shared.one_process import batch, train
from grader.exercises.shared.training_cases import model_cases
from grader.exercises.shared.training_demands import gradient_bytes_once
from grader.judging.compare import same
from grader.judging.demands import group_size, only_calls, results_waited
from grader.judging.exercise import Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, raised, unwaited, wrong_ranks

STEPS, LR = 3, 0.05


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    """Batches that do not divide, the last case's smaller than the number of ranks; SGD and AdamW in turn."""

    def inputs(model: str, n: int, seed: int, rows: int | None = None) -> list[dict[str, Any]]:
        rows = rows or 2 * n + draw.integer(1, max(1, n - 1))
        pairs = [batch(draw, model, rows) for _ in range(STEPS)]
        optimizer = "AdamW" if n % 2 else "SGD"
        return [{"model": model, "seed": seed, "batch_size": rows, "optimizer": optimizer, "lr": LR,
                 "xs": [x.tensor_split(n)[r] for x, _ in pairs], "ys": [y.tensor_split(n)[r] for _, y in pairs]}
                for r in range(n)]

    few = Case("4 ranks, 2 rows", tuple(inputs("mlp", 4, draw.integer(0, 1 << 30), rows=2)))
    return [*model_cases(draw, grading, ("mlp", "tied", "unused", "frozen", "gpt"), inputs), few]


def _plain(case: Case, rank: int) -> dict[str, Any]:
    found = train(case, rank)
    return {"losses": found["losses"], "parameters": found["parameters"]}


def _simulate(look: Look, rank: int, weight: Callable[[int, int, int], float], zero: bool = True,
              own: bool = False) -> dict[str, torch.Tensor]:
    """Parameters after steps on gradients summed with weight(rows, batch size, n); own: of this rank's rows only."""
    case = look.case
    inputs = case.inputs[rank]
    model = build(inputs["model"], inputs["seed"])
    optimizer = make_optimizer(inputs, model.parameters())
    members = (rank,) if own else case.members(rank)
    for step in range(STEPS):
        for p in model.parameters():
            if p.grad is not None:
                p.grad *= 0 if zero else len(members)  # left over, it is on every rank, and summed again
        for member in members:
            x, y = (case.inputs[member][name][step] for name in ("xs", "ys"))
            if len(x):
                (loss_rows(model(x), y).mean() * weight(len(x), inputs["batch_size"], len(case.members(rank)))).backward()
        optimizer.step()
    return parameters(model)


def _by_sgd(look: Look, rank: int, found: Any) -> bool:
    """AdamW hardly feels the scale of a gradient, so it cannot tell these mistakes apart."""
    return isinstance(found, dict) and look.case.inputs[rank]["optimizer"] == "SGD"


def _as(*arguments, **options) -> Callable[[Look], bool]:
    """The parameters of every wrong rank are those that this other way would give."""

    def test(look: Look, rank: int, found: Any, _) -> bool:
        return _by_sgd(look, rank, found) and same(
            found["parameters"], _simulate(look, rank, *arguments, **options), 1e-5)

    return wrong_ranks(test)


def _right_parameters(look: Look, rank: int, found: Any, expected: Any) -> bool:
    return _by_sgd(look, rank, found) and same(found["parameters"], expected["parameters"], 1e-6)


def _nan(look: Look, rank: int, found: Any, _) -> bool:
    numbers = [*found["losses"], *found["parameters"].values()]
    return group_size(look, rank) > 1 and any(bool(x.isnan().any()) for x in numbers if isinstance(x, torch.Tensor))


EXERCISE = Exercise(
    title="A step of data parallelism",
    parameters=("model", "loss_fn", "x", "y", "batch_size", "optimizer", "group"),
    make_cases=_cases,
    oracle=each_group(_plain),
    trains=True,
    tolerance=1e-6,
    technique=Technique(
        demands=(
        only_calls("all_reduce", hint="dist.all_reduce is all the communication that this exercise needs."),
        gradient_bytes_once(lambda look, r: STEPS),
        results_waited(),
    ),
        symptoms=(
        group_ignored("The sum runs over ranks that are not in the group: pass group=group."),
        unwaited(),
        Symptom("shards weighed alike", "Ranks with fewer rows count as much as those with more: the mean of means is not "
                                        "the mean. Sum the losses of your rows and divide by the whole batch_size; then "
                                        "the gradients add up.", _as(lambda rows, size, n: 1 / n)),
        Symptom("sum for mean", "Each rank takes the mean over its own rows, and the means are summed: the gradient is "
                                "about n times too large. Divide the sum over your rows by batch_size.",
                _as(lambda rows, size, n: 1.0)),
        Symptom("divided by n too", "The gradients are n times too small: batch_size already counts the rows of all ranks, "
                                    "so the sum over ranks is the mean.", _as(lambda rows, size, n: rows / size / n)),
        Symptom("gradients not reduced", "Each rank trains on its own rows alone, and the models drift apart: all-reduce "
                                         "every gradient before optimizer.step().",
                lambda look: _as(lambda rows, size, n: rows / size, own=True)(look)
                or _as(lambda rows, size, n: 1.0, own=True)(look)),
        Symptom("gradients pile up", "The gradients of the last step are still there: call optimizer.zero_grad() before "
                                     "backward().", _as(lambda rows, size, n: rows / size, zero=False)),
        Symptom("not a number", "A rank without rows has a loss of nan: the mean of nothing. Sum the rows' losses and "
                                "divide by batch_size.", wrong_ranks(_nan)),
        Symptom("own loss returned", "The parameters are right, the loss is that of this rank's rows: sum it over the ranks "
                                     "as well, detached.", wrong_ranks(_right_parameters)),
        raised("NoneType", "A parameter that took no part, or is frozen, has p.grad None: leave it out, on all ranks.",
               "no gradient"),
    ),
    ),
)
