"""The first fault of one rank's list: a step that is impossible, repeated, missing or too early."""

from collections.abc import Callable, Sequence
from typing import Any

from grader.exercises.shared import right_orders
from grader.exercises.shared.right_faults import needs, rank_faults
from grader.exercises.technique.faults import sentences
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip
from utils.schedules.faults import MISSING, NO_SUCH_MICRO, NOT_THIS_RANKS, REPEATED, TOO_EARLY
from utils.schedules.schedule import Fault, Shape, Step

Steps = Sequence[Step]
Search = Callable[[Steps, int, Shape], Fault | None]


def _case(draw: Draw, rank: int, shape: Shape, right: list[Step]) -> Case:
    """The right list, and one list for each way to spoil it."""
    last, some = shape.kinds[-1], draw.integer(0, len(right) - 1)
    first = right[0]
    other = first._replace(stage=(rank + 1) % shape.n_ranks if shape.n_ranks > 1 else shape.n_stages)
    backward = next(i for i, step in enumerate(right) if step.kind == last)
    early = [*right]
    forward = right.index(right[backward]._replace(kind="F"))
    early[forward], early[backward] = early[backward], early[forward]
    apart = {Step("F", shape.n_micro - 1, rank), Step(last, 0, rank)}
    lists = {
        "in order": right,
        "nothing at all": [],
        "one left out": right[:some] + right[some + 1:],
        "the last left out": right[:-1],
        "two kinds of two micro-batches left out": [step for step in right if step not in apart],
        "one twice": right[:some + 1] + right[some:],
        "the last again": right + right[-1:],
        "unknown kind": [*right, Step("X", 0, rank)],
        "kind of another schedule": [*right, Step("B" if shape.kinds == "FIW" else "W", 0, rank)],
        "a micro-batch too many": [*right, Step("F", shape.n_micro, rank)],
        "a negative micro-batch": [Step(last, -1, rank), *right],
        "a micro-batch too many, then an unknown kind": [Step("F", shape.n_micro, rank), *right, Step("X", 0, rank)],
        "a stage too many, then a negative micro-batch": [Step("F", 0, rank + shape.n_stages), Step("F", -1, rank), *right],
        "the stage of another": [*right[:some], other, *right[some:]],
        "a stage too many": [*right, Step("F", 0, rank + shape.n_stages)],
        "a negative stage": [*right, Step("F", 0, rank - shape.n_ranks)],
        "backward first": early,
        "one twice, one missing": right[:1] + right[:-1],
        "two twice, the second one first": [*right[:2], right[1], right[0], *right[2:]],
        "too early, and one missing": early[:-1],
        "twice, and impossible later": [*right[:1], *right, Step("F", shape.n_micro + 1, rank)],
    }
    if shape.kinds == "FIW":
        swapped = {"F": "F", "I": "W", "W": "I"}
        lists["weights before input"] = [step._replace(kind=swapped[step.kind]) for step in right]
    if shape.n_stages > shape.n_ranks:
        apart = {Step("F", 0, rank + shape.n_ranks), Step("F", 1, rank)}
        lists["two micro-batches of two stages left out"] = [step for step in right if step not in apart]
        lists["chunks in the wrong order"] = sorted(right, key=lambda step: (step.kind != "F", -step.stage))
    return Case(f"rank {rank} of {shape.n_ranks}, {shape.n_stages} stages, {shape.n_micro} micro-batches",
                ({"lists": lists, "rank": rank, "shape": shape},))


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    m = draw.integer(3, 5)
    cases = [_case(draw, 0, Shape(1, 2, m), right_orders.interleaved(1, 2, m)[0]),
             _case(draw, 3, Shape(4, 4, m), right_orders.gpipe(4, m)[3]),
             _case(draw, 1, Shape(2, 4, 4), right_orders.interleaved(2, 2, 4)[1]),
             _case(draw, 1, Shape(3, 3, m, "FIW"), right_orders.zero_bubble(3, m)[1])]
    if grading:
        cases.append(_case(draw, 0, Shape(1, 1, 2), right_orders.gpipe(1, 2)[0]))
        cases.append(_case(draw, 0, Shape(3, 3, m), right_orders.one_f_one_b(3, m)[0]))
    return cases


def _first(steps: Steps, rank: int, shape: Shape) -> Fault | None:
    return next(rank_faults(steps, rank, shape), None)


def _of_each_list(case: Case, search: Search) -> dict[str, Any]:
    lists, rank, shape = case.inputs[0].values()
    return sentences({name: search(steps, rank, shape) for name, steps in lists.items()})


def _found_by(id: str, hint: str, search: Search) -> Slip:
    """What a wrong search finds."""
    return Slip(id, hint, lambda case, rank, right: _of_each_list(case, search))


def _all_but(why: str) -> Search:
    """A search that does not look for one kind of fault."""
    return lambda steps, rank, shape: next((f for f in rank_faults(steps, rank, shape) if f.why != why), None)


def _missing_by(place: Callable[[Step, Shape], int]) -> Search:
    """Of several missing steps, one with the lowest place."""

    def search(steps: Steps, rank: int, shape: Shape) -> Fault | None:
        first, missing = _first(steps, rank, shape), (f for f in rank_faults(steps, rank, shape) if f.why == MISSING)
        return min(missing, key=lambda fault: place(fault.step, shape)) if first and first.why == MISSING else first

    return search


def _one_stage(steps: Steps, rank: int, shape: Shape) -> Fault | None:
    """As if a rank had the stage of its own number only."""
    return _first(steps, rank, shape._replace(n_stages=shape.n_ranks))


def _wants_all_needs(steps: Steps, rank: int, shape: Shape) -> Fault | None:
    """Needs on other ranks are looked for in this rank's list."""
    early = (Fault(rank, step, TOO_EARLY) for place, step in enumerate(steps)
             if any(need not in steps[:place] for need in needs(step, shape.n_stages)))
    return _all_but(TOO_EARLY)(steps, rank, shape) or next(early, None)


def _one_pass(steps: Steps, rank: int, shape: Shape) -> Fault | None:
    """The first step at which anything can be said; missing ones last."""
    faults = list(rank_faults(steps, rank, shape))

    def place(fault: Fault) -> int:
        places = [i for i, step in enumerate(steps) if step == fault.step]
        return places[1 if fault.why == REPEATED else 0]

    return min((f for f in faults if f.why != MISSING), key=place, default=next(iter(faults), None))


EXERCISE = Exercise(
    title="The first fault of one rank",
    parameters=("steps", "rank", "shape"),
    make_cases=_cases,
    oracle=lambda case: [_of_each_list(case, _first)],
    points={VALUES: 2},
    slips=(
        _found_by("stages of a rank", "A rank may have several stages: s is rank r's if s % n_ranks == r (and there is such "
                                      "a stage).", _one_stage),
        _found_by("other ranks' steps wanted", "A list that is in order is called too early: look only for needs on a stage "
                                               "of this very rank. The others' lists are not here.", _wants_all_needs),
        _found_by("repeats not seen", "A step that comes twice passes: look whether it is among the steps before it.",
                  _all_but(REPEATED)),
        _found_by("missing not seen", "A list with a step too few passes: every kind of every micro-batch on each of this "
                                      "rank's stages must come.", _all_but(MISSING)),
        *(_found_by("missing in another order", "Of several missing steps another one is named: go over the rank's stages, "
                    "for each over the micro-batches, for each over the kinds.", _missing_by(place))
          for place in (lambda step, shape: shape.kinds.index(step.kind), lambda step, shape: step.micro)),
        _found_by("order not seen", "A step may come before one of the same rank that it needs, such as a backward before "
                                    "its own forward: compare with the steps before it.", _all_but(TOO_EARLY)),
        _found_by("micro-batch not checked", "Micro-batches go from 0 to n_micro − 1; another number is NO_SUCH_MICRO.",
                  _all_but(NO_SUCH_MICRO)),
        _found_by("stage not checked", "A step whose stage is another rank's, or beyond the last, is NOT_THIS_RANKS.",
                  _all_but(NOT_THIS_RANKS)),
        _found_by("one search for all", "The faults are right one by one, but the first kind of fault in the contract comes "
                                        "first: search the whole list for impossible steps, then for repeated ones, and so "
                                        "on.", _one_pass),
    ),
)
