"""The first fault of one rank's list: a step that is impossible, repeated, missing or too early."""

from collections.abc import Callable, Sequence
from typing import Any

from grader.exercises.technique.schedules import needs, rank_faults, sentences
from grader.judging.compare import ANYTHING
from grader.judging.exercise import VALUES, Case, Exercise, Slip
from utils.schedules.faults import MISSING, NO_SUCH_MICRO, NOT_THIS_RANKS, REPEATED, TOO_EARLY, UNKNOWN_KIND
from utils.schedules.schedule import Fault, Shape, Step

from .cases import make_cases

Steps = Sequence[Step]
Search = Callable[[Steps, int, Shape], Fault | None]


def _first(steps: Steps, rank: int, shape: Shape) -> Fault | None:
    return next(rank_faults(steps, rank, shape), None)


def _of_each_list(case: Case, search: Search) -> dict[str, Any]:
    rank, shape = case.inputs[0]["rank"], Shape(*case.inputs[0]["shape"])
    return sentences({name: search([Step(*step) for step in steps], rank, shape)
                      for name, steps in case.inputs[0]["lists"].items()})


def _found_by(id: str, hint: str, search: Search) -> Slip:
    """What a wrong search finds."""
    return Slip(id, hint, lambda case, rank, right: _of_each_list(case, search))


def _all_but(why: str) -> Search:
    """A search that does not look for one kind of fault."""
    return lambda steps, rank, shape: next((f for f in rank_faults(steps, rank, shape) if f.why != why), None)


def _any_kind(case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    """What such a search says of a W where there is no I depends on how it looks for needs."""
    return _of_each_list(case, _all_but(UNKNOWN_KIND)) | {"kind of another schedule": ANYTHING}


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
    make_cases=make_cases,
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
        _found_by("order not seen", "A step may come before one of the same rank that it needs, such as a backward before "
                                    "its own forward: compare with the steps before it.", _all_but(TOO_EARLY)),
        _found_by("micro-batch not checked", "Micro-batches go from 0 to n_micro − 1; another number is NO_SUCH_MICRO.",
                  _all_but(NO_SUCH_MICRO)),
        Slip("kind not checked", "Only the kinds in shape.kinds exist in this schedule; any other is UNKNOWN_KIND, a "
                                 "\"W\" in \"FB\" as well.", _any_kind),
        _found_by("stage not checked", "A step whose stage is another rank's, or beyond the last, is NOT_THIS_RANKS.",
                  _all_but(NOT_THIS_RANKS)),
        _found_by("one search for all", "The faults are right one by one, but the first kind of fault in the contract comes "
                                        "first: search the whole list for impossible steps, then for repeated ones, and so "
                                        "on.", _one_pass),
    ),
)
