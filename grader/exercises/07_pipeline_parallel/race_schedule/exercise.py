"""The schedule race: as little idle time as the memory allows, for given times of F, I, W and of a hop."""

from collections.abc import Callable, Sequence
from typing import Any

from grader.exercises.shared.right_orders import all_kept, put_off
from grader.judging.exercise import TECHNIQUE, VALUES, Case, Draw, Exercise
from utils.schedules.schedule import Schedule

from .technique import makespan_in, reading

PAPER = {"F": 18.522, "I": 18.086, "W": 9.337}, 0.601  # Qi et al., arXiv 2401.10241, table 5: 1.5B, 24 micro-batches


def _one_f_one_b(n_stages: int, n_micro: int, most: int) -> Schedule:
    """Each W right behind its own I."""
    return put_off(n_stages, n_micro, lambda rank: 0)


def _of(case: Case, make: Callable[[int, int, int], Schedule]) -> Schedule:
    return make(*(case.inputs[0][name] for name in ("n_stages", "n_micro", "most")))


def _case(name: str, n_stages: int, n_micro: int, most: int, durations: dict[str, float], hop_time: float) -> Case:
    """With what 1F1B takes, and what ZB-H1, ZB-H2 or a line between them takes in this memory: the bar."""
    asked = {"n_stages": n_stages, "n_micro": n_micro, "durations": durations, "hop_time": hop_time, "most": most}
    case = Case(f"{name}: {n_stages} stages, {n_micro} micro-batches, {most} in flight", (asked,))
    makespans = {name: makespan_in(case, _of(case, make)) for name, make in (("1F1B", _one_f_one_b), ("bar", all_kept))}
    return Case(case.name, (asked | makespans,))


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    cases = [_case("equal times", 4, 8, 4, {"F": 1.0, "I": 1.0, "W": 1.0}, 0.0),
             _case("uneven times", 3, 8, 3, {"F": 2.0, "I": 2.5, "W": 1.5}, 0.0),
             _case("short W", 4, 12, 7, {"F": 1.0, "I": 1.0, "W": 0.5}, 0.0),
             _case("few micro-batches", 3, 2, 5, {"F": 1.0, "I": 1.0, "W": 1.0}, 0.0),
             _case("few micro-batches", 4, 2, 4, {"F": 1.0, "I": 1.0, "W": 1.0}, 0.0),
             _case("hops", 4, 12, 5, {"F": 1.0, "I": 1.25, "W": 1.25}, 0.25),
             _case("uneven times and hops", 4, 12, 7, {"F": 1.0, "I": 1.5, "W": 0.75}, 0.25)]
    if grading:
        p = draw.integer(3, 5)
        drawn = {kind: draw.integer(low, low + 3) / 4 for kind, low in (("F", 4), ("I", 4), ("W", 2))}
        cases += [_case("drawn", p, p + draw.integer(4, 8), draw.integer(p, 2 * p - 1), drawn, 0.0),
                  _case("the paper's times", 8, 24, 8, *PAPER), _case("the paper's times", 8, 24, 15, *PAPER)]
    return cases


def _right(case: Case) -> list[dict[str, Any]]:
    return [reading(case, _of(case, all_kept))]


EXERCISE = Exercise(
    title="The schedule race (c)",
    parameters=("n_stages", "n_micro", "durations", "hop_time", "most"),
    timeout_s=30.0,  # who searches may take his time
    make_cases=_cases,
    oracle=_right,
    forbidden=("torch.distributed.pipelining",),
    points={VALUES: 3, TECHNIQUE: 3},
)
