"""Reduce when ready: a hook on every parameter starts its all-reduce while the backward pass goes on."""

from __future__ import annotations

from collections.abc import Sequence

from grader.calling.training import gradients
from grader.calling.zoo import build, loss_rows
from grader.exercises.shared.cases import each_group
from grader.exercises.shared.one_process import TOLERANCE, mean_gradients
from grader.exercises.shared.training_cases import model_cases, with_batches
from grader.exercises.shared.training_demands import (
    divided_twice,
    gradient_bytes_once,
    instead,
    overlapped,
    own_kept,
    sum_for_mean,
)
from grader.judging.compare import same
from grader.judging.demands import only_calls, results_waited
from grader.judging.exercise import Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import every_rank, group_ignored, raised, unwaited

STEPS = 2


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    return model_cases(draw, grading, ("mlp", "tied", "frozen", "unused", "gpt"), with_batches(draw, lambda n: 2, STEPS))


def _means(case: Case, rank: int) -> list[dict]:
    return [mean_gradients(case, rank, list(zip(
        (xs[step] for xs in case.peers_inputs(rank, "xs")), (ys[step] for ys in case.peers_inputs(rank, "ys")),
        strict=True))) for step in range(STEPS)]


def _own(look: Look, rank: int) -> list[dict]:
    inputs, found = look.case.inputs[rank], []
    for x, y in zip(inputs["xs"], inputs["ys"], strict=True):
        model = build(inputs["model"], inputs["seed"])
        loss_rows(model(x), y).mean().backward()
        found.append(gradients(model))
    return found


ONCE = gradient_bytes_once(lambda look, r: STEPS)
EXERCISE = Exercise(
    title="Reduce while the backward pass goes on",
    parameters=("model", "group"),
    make_cases=_cases,
    oracle=each_group(_means),
    trains=True,
    tolerance=TOLERANCE,
    technique=Technique(
        demands=(
        only_calls("all_reduce", hint="dist.all_reduce is all the communication that this exercise needs."),
        *overlapped(),
        ONCE,
        results_waited(),
    ),
        symptoms=(
        group_ignored("The mean runs over ranks that are not in the group: pass group=group, and divide by the group's "
                      "size."),
        unwaited(),
        instead(ONCE),
        sum_for_mean(),
        divided_twice(),
        own_kept(_own, "Each rank still has the gradients of its own rows: nothing was reduced. A hook must be registered "
                       "on each parameter with requires_grad."),
        raised("require grad", "A frozen parameter takes no hook: only those with requires_grad have a gradient.",
               "frozen hooked"),
        raised("NoneType", "A hook that runs before the gradient is stored finds p.grad None (or the last one): "
                           "register_post_accumulate_grad_hook runs after.", "too early a hook"),
        Symptom("second step wrong", "Right in the first backward pass, wrong in the second: finish() must forget the "
                                     "works that it waited for, and the hooks must stay.", every_rank(
            lambda look, r, found, expected: same(found[0], expected[0], 1e-6))),
    ),
    ),
)
