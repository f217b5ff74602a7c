"""The first fault of one rank's list: a step that is impossible, repeated, missing or too early."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from grader.evidence.evidence import RETURNED
from grader.exercises.shared import right_orders
from grader.exercises.shared import schedule_oracle as oracle
from grader.judging.demands import only_calls
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Look, Symptom, Technique
from utils.schedules.faults import MISSING, NO_SUCH_MICRO, NOT_THIS_RANKS, REPEATED, TOO_EARLY, UNKNOWN_KIND
from utils.schedules.schedule import Shape, Step


def _case(draw: Draw, rank: int, shape: Shape, right: list[Step]) -> Case:
    """The right list, and one list for each way to spoil it."""
    last, some = shape.kinds[-1], draw.integer(0, len(right) - 1)
    first = right[0]
    other = first._replace(stage=(rank + 1) % shape.n_ranks if shape.n_ranks > 1 else shape.n_stages)
    backward = next(i for i, step in enumerate(right) if step.kind == last)
    early = [*right]
    forward = right.index(right[backward]._replace(kind="F"))
    early[forward], early[backward] = early[backward], early[forward]
    lists = {
        "in order": right,
        "nothing at all": [],
        "one left out": right[:some] + right[some + 1:],
        "the last left out": right[:-1],
        "one twice": right[:some + 1] + right[some:],
        "the last again": right + right[-1:],
        "unknown kind": [*right, Step("X", 0, rank)],
        "kind of another schedule": [*right, Step("B" if shape.kinds == "FIW" else "W", 0, rank)],
        "a micro-batch too many": [*right, Step("F", shape.n_micro, rank)],
        "a negative micro-batch": [Step(last, -1, rank), *right],
        "the stage of another": [*right[:some], other, *right[some:]],
        "a stage too many": [*right, Step("F", 0, rank + shape.n_stages)],
        "backward first": early,
        "one twice, one missing": right[:1] + right[:-1],
        "too early, and one missing": early[:-1],
        "twice, and impossible later": [*right[:1], *right, Step("F", shape.n_micro + 1, rank)],
    }
    if shape.kinds == "FIW":
        swapped = [step._replace(kind={"I": "W", "W": "I"}.get(step.kind, "F")) for step in right]
        lists["weights before input"] = swapped
    if shape.n_stages > shape.n_ranks:
        lists["chunks in the wrong order"] = sorted(right, key=lambda step: (step.kind != "F", -step.stage))
    return Case(f"rank {rank} of {shape.n_ranks}, {shape.n_stages} stages, {shape.n_micro} micro-batches",
                ({"lists": {name: [tuple(step) for step in steps] for name, steps in lists.items()}, "rank": rank,
                  "shape": tuple(shape)},))


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    m = draw.integer(3, 5)
    cases = [_case(draw, 0, Shape(3, 3, m), right_orders.one_f_one_b(3, m)[0]),
             _case(draw, 3, Shape(4, 4, m), right_orders.gpipe(4, m)[3]),
             _case(draw, 1, Shape(2, 4, 4), right_orders.interleaved(2, 2, 4)[1]),
             _case(draw, 1, Shape(3, 3, m, "FIW"), right_orders.zero_bubble(3, m)[1])]
    return cases + [_case(draw, 0, Shape(1, 1, 2), right_orders.gpipe(1, 2)[0])] * grading


def _faults(case: Case, way: Callable[[list[Step], int, Shape], Any] = oracle.rank_fault) -> dict[str, Any]:
    inputs = case.inputs[0]
    found = {name: way([Step(*step) for step in steps], inputs["rank"], Shape(*inputs["shape"]))
             for name, steps in inputs["lists"].items()}
    return {name: fault and str(fault) for name, fault in found.items()}


def said(found: Any) -> Any:
    """A fault as its sentence, anything else as it is."""
    return oracle.Fault(found[0], Step(*found[1]), found[2]).__str__() if isinstance(found, tuple) else found


def _reading(case: Case, found: Any) -> Any:
    return {name: said(fault) for name, fault in found.items()}


def wrong_as(read: Callable[[Case, Any], Any], way: Callable[[Case], dict[str, Any]]) -> Callable[[Look], bool]:
    """Everything that was answered wrongly was answered as `way` does."""

    def matches(look: Look) -> bool:
        if look.evidence.ending != RETURNED:
            return False
        found, wrong_way = read(look.case, look.outputs[0]), way(look.case)
        wrong = [name for name, fault in look.right[0].items() if found[name] != fault]
        return bool(wrong) and all(found[name] == wrong_way[name] for name in wrong)

    return matches


def _without(*whys: str) -> Callable[[Look], bool]:
    return wrong_as(_reading, lambda case: _faults(case, lambda steps, rank, shape: oracle.rank_fault(
        steps, rank, shape, whys)))


def _one_pass(steps: list[Step], rank: int, shape: Shape):
    """The first step at which anything can be said; missing ones last."""
    whole = list(oracle.every_fault(steps, rank, shape))
    place = {step: i for i, step in reversed(list(enumerate(steps)))}
    here = [fault for fault in whole if fault.why != MISSING]

    def position(fault):
        again = [i for i, step in enumerate(steps) if step == fault.step]
        return again[1] if fault.why == REPEATED else place[fault.step]

    return min(here, key=position, default=whole[0] if whole else None)


def _own_only_wanted(steps: list[Step], rank: int, shape: Shape):
    """Needs on other ranks are looked for in this rank's list."""
    fault = oracle.rank_fault(steps, rank, shape, (TOO_EARLY,))
    if fault:
        return fault
    early = (step for i, step in enumerate(steps) if any(n not in steps[:i] for n in oracle.needs(step, shape.n_stages)))
    return next((oracle.Fault(rank, step, TOO_EARLY) for step in early), None)


def _stage_differs(look: Look) -> bool:
    """A list that is in order is said to have another rank's stage."""
    found = _reading(look.case, look.outputs[0])["in order"]
    return look.evidence.ending == RETURNED and isinstance(found, str) and "another rank" in found


EXERCISE = Exercise(
    title="The first fault of one rank",
    parameters=("steps", "rank", "shape"),
    make_cases=_cases,
    oracle=lambda case: [_faults(case)],
    points={VALUES: 2},
    technique=Technique(
        reading=_reading,
        demands=(only_calls(id="communicates", hint="This is a question about data: no message is needed."),),
        symptoms=(
        Symptom("stages of a rank", "A rank may have several stages: s is rank r's if s % n_ranks == r (and there is such a "
                                    "stage).", _stage_differs),
        Symptom("other ranks' steps wanted", "A list that is in order is called too early: look only for needs on a stage "
                                             "of this very rank. The others' lists are not here.",
                wrong_as(_reading, lambda case: _faults(case, _own_only_wanted))),
        Symptom("repeats not seen", "A step that comes twice passes: look whether it is among the steps before it.",
                _without(REPEATED)),
        Symptom("missing not seen", "A list with a step too few passes: every kind of every micro-batch on each of this "
                                    "rank's stages must come.", _without(MISSING)),
        Symptom("order not seen", "A step may come before one of the same rank that it needs, such as a backward before its "
                                  "own forward: compare with the steps before it.", _without(TOO_EARLY)),
        Symptom("micro-batch not checked", "Micro-batches go from 0 to n_micro − 1; another number is NO_SUCH_MICRO.",
                _without(NO_SUCH_MICRO)),
        Symptom("kind not checked", "Only the kinds in shape.kinds exist in this schedule; any other is UNKNOWN_KIND, a "
                                    "\"W\" in \"FB\" as well.", _without(UNKNOWN_KIND)),
        Symptom("stage not checked", "A step whose stage is another rank's, or beyond the last, is NOT_THIS_RANKS.",
                _without(NOT_THIS_RANKS)),
        Symptom("one search for all", "The faults are right one by one, but the first kind of fault in the contract comes "
                                      "first: search the whole list for impossible steps, then for repeated ones, and so "
                                      "on.",
                wrong_as(_reading, lambda case: _faults(case, _one_pass))),
    ),
    ),
)
