"""Average the gradients: all of them in one flat all-reduce for each type of number."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from grader.calling.training import gradients
from grader.calling.zoo import build, loss_rows
from grader.exercises.shared.cases import each_group
from grader.exercises.shared.one_process import TOLERANCE, batch, mean_gradients
from grader.exercises.shared.training_cases import model_cases
from grader.exercises.shared.training_demands import (
    calls_at_most,
    close,
    divided_twice,
    dtypes_of,
    gradient_bytes_once,
    own_dtypes,
    own_kept,
    sum_for_mean,
)
from grader.judging.compare import same
from grader.judging.demands import group_size, only_calls, results_waited
from grader.judging.exercise import Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, raised, unwaited, wrong_ranks


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(model: str, n: int, seed: int) -> list[dict]:
        pairs = [batch(draw, model, 2) for _ in range(n)]
        return [{"model": model, "seed": seed, "x": x, "y": y} for x, y in pairs]

    return model_cases(draw, grading, ("mlp", "tied", "frozen", "unused", "mixed", "gpt"), inputs)


def _mean(case: Case, rank: int) -> dict:
    return mean_gradients(case, rank, list(zip(case.peers_inputs(rank, "x"), case.peers_inputs(rank, "y"), strict=True)))


def _own(look: Look, rank: int) -> dict:
    inputs = look.case.inputs[rank]
    model = build(inputs["model"], inputs["seed"])
    loss_rows(model(inputs["x"]), inputs["y"]).mean().backward()
    return gradients(model)


def _misplaced(look: Look, rank: int, found: dict, expected: dict) -> bool:
    """The right numbers in other places."""
    flat = [torch.cat([g.double().flatten() for g in one.values() if g is not None]) for one in (found, expected)]
    return group_size(look, rank) > 1 and close(flat[0].sort().values, flat[1].sort().values)


def _zeros_for_none(look: Look, rank: int, found: dict, expected: dict) -> bool:
    wrong = [name for name in expected if not same(found.get(name), expected[name])]
    return all(expected[name] is None and not found[name].any() for name in wrong)


EXERCISE = Exercise(
    title="One all-reduce for all gradients",
    parameters=("model", "group"),
    make_cases=_cases,
    oracle=each_group(_mean),
    trains=True,
    tolerance=TOLERANCE,
    technique=Technique(
        demands=(
        only_calls("all_reduce", hint="dist.all_reduce is all the communication that this exercise needs."),
        own_dtypes(),
        gradient_bytes_once(),
        calls_at_most(dtypes_of, "one all-reduce for each dtype",
                      "The mean is right, but every parameter costs a call of its own, and each call its latency α: copy "
                      "all gradients of one dtype into one flat tensor, all-reduce that, copy back.", "a call each"),
        results_waited(),
    ),
        symptoms=(
        group_ignored("The mean runs over ranks that are not in the group: pass group=group, and divide by the group's "
                      "size."),
        unwaited(),
        sum_for_mean(),
        divided_twice(),
        own_kept(_own, "Each rank still has the gradients of its own rows: copy the pieces of the flat tensor back into "
                       "p.grad (p.grad.copy_(piece))."),
        Symptom("pieces misplaced", "The right numbers, in the wrong places: cut the flat tensor in the order in which you "
                                    "put it together.", wrong_ranks(_misplaced)),
        raised("NoneType", "A parameter that took no part, or is frozen, has p.grad None: leave it out, on all ranks.",
               "no gradient"),
        Symptom("zeros for none", "A parameter that had no gradient has zeros now: AdamW would decay it. Leave None as it "
                                  "is.", wrong_ranks(_zeros_for_none)),
    ),
    ),
)
