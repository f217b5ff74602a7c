"""DataParallel: wraps any module; broadcast at the start, gradients averaged while the backward pass goes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grader.evidence.evidence import RETURNED
from grader.exercises.shared.cases import each_group
from grader.exercises.shared.one_process import TOLERANCE, model_of, train
from grader.exercises.shared.training_cases import SEEDS, model_cases, with_batches
from grader.exercises.shared.training_demands import (
    A_LOSS_BYTES,
    divided_twice,
    gradient_bytes_once,
    in_part,
    instead,
    overlapped,
    own_dtypes,
    sum_for_mean,
)
from grader.judging.compare import same
from grader.judging.demands import group_size, only_calls, results_waited
from grader.judging.exercise import Case, Demand, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, raised, unwaited
from utils.costs.formulas import bytes_sent_per_rank

from ..broadcast_model.exercise import buffer_names, wrong_names

STEPS, MICRO, LR = 3, 2, 0.05


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(model: str, n: int, seed: int) -> list[dict[str, Any]]:
        micro = 1 if n == 2 else MICRO
        make = with_batches(draw, lambda n: 2, STEPS * micro, micro=micro, optimizer="SGD" if n % 2 else "AdamW", lr=LR)
        return [{**one, "seed": seed if r == 0 else draw.integer(0, SEEDS)} for r, one in enumerate(make(model, n, seed))]

    return model_cases(draw, grading, ("mlp", "buffered", "tied", "frozen", "unused", "mixed", "empty", "gpt"), inputs)


def _plain(case: Case, rank: int) -> dict[str, Any]:
    """Losses are each rank's own."""
    found = train(case, rank)
    return {"start": dict(model_of(case, rank).state_dict()), **{k: found[k] for k in ("gradients", "parameters")}}


def _broadcast_bytes(look: Look, rank: int) -> float:
    model = model_of(look.case, rank)
    total = sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))
    return bytes_sent_per_rank("broadcast", total + A_LOSS_BYTES, group_size(look, rank))


def _quiet(look: Look) -> tuple[bool, str]:
    """No all-reduce while gradients accumulate."""
    for rank in look.working:
        for one in (s for s in look.evidence.trace.spans if s.rank == rank and s.name == "accumulation"):
            if any(one.start_s <= c.start_s <= one.end_s for c in look.evidence.trace.of(rank)):
                return False, f"rank {rank} communicated inside no_sync()"
    return True, ""


def _wrong(part: str):
    """Of the three parts, `part` is the first that is wrong on any rank."""

    def matches(look: Look) -> bool:
        if look.evidence.ending != RETURNED:
            return False
        wrong = (p for p in ("start", "gradients", "parameters") if any(
            not same(found[p], expected[p], 1e-6) for _, found, expected in look.pairs()))
        return next(wrong, "") == part

    return matches


ONCE = gradient_bytes_once(lambda look, r: STEPS, _broadcast_bytes)
EXERCISE = Exercise(
    title="Wrap any module",
    parameters=("module", "group"),
    make_cases=_cases,
    oracle=each_group(_plain),
    trains=True,
    tolerance=TOLERANCE,
    points={"values": 4, "technique": 4},
    technique=Technique(
        demands=(
        only_calls("all_reduce", "broadcast", hint="dist.broadcast and dist.all_reduce are all that this exercise needs."),
        *overlapped(),
        Demand("communicates in no_sync", "nothing is sent inside no_sync()",
               "Gradients that only accumulate are reduced already: inside no_sync() the hooks must do nothing.", _quiet),
        own_dtypes(),
        ONCE,
        results_waited(),
    ),
        symptoms=(
        group_ignored("The ranks of other groups are touched: pass group=group to every call, and group_src=0 to "
                      "broadcast."),
        unwaited(),
        instead(ONCE),
        in_part("start", Symptom("buffers forgotten", "The ranks begin with the same parameters and different buffers: "
                                 "broadcast module.buffers() too.", wrong_names(buffer_names))),
        Symptom("start not shared", "The ranks begin with different parameters or buffers: broadcast both from the group's "
                                    "rank 0 when wrapping.", _wrong("start")),
        in_part("gradients", sum_for_mean()),
        in_part("gradients", divided_twice()),
        Symptom("gradients wrong", "The ranks begin alike, but the first step's gradients are not the mean over ranks of "
                                   "all that was accumulated.", _wrong("gradients")),
        Symptom("later steps wrong", "The first step's gradients are right, and the parameters at the end are not: what is "
                                     "left over from one step must not act in the next.", _wrong("parameters")),
        raised("argument: 'group'", "DataParallel(module) without a group must work: group=None means the world.",
               "group demanded"),
        raised("no_sync", "no_sync() is missing, or not a context manager (contextlib.contextmanager makes one).",
               "no no_sync"),
        raised("NoneType", "A parameter that took no part has p.grad None: leave it out, on all ranks.", "no gradient"),
        raised("require grad", "A frozen parameter takes no hook: only those with requires_grad have a gradient.",
               "frozen hooked"),
    ),
    ),
)
