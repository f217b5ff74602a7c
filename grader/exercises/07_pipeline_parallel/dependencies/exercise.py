"""What a step of a pipeline waits for: the stage before, the stage after, and its own forward."""

from collections.abc import Sequence

from grader.exercises.shared.right_faults import needs
from grader.judging.exercise import VALUES, Case, Draw, Exercise
from utils.schedules.schedule import Step


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    many = draw.integer(5, 7)  # drawn in any case: what follows is drawn from the same numbers
    sizes = [1, 2, 4, *([many] if grading else [])]
    return [Case(f"{n} stage{'s' * (n > 1)}", ({"n_stages": n, "steps": [
        (kind, micro, stage) for kind in "FBIW" for micro in (0, draw.integer(2, 9)) for stage in range(n)]},))
            for n in sizes]


def _needed(case: Case) -> dict[tuple, list]:
    inputs = case.inputs[0]
    return {tuple(step): sorted(map(tuple, needs(Step(*step), inputs["n_stages"]))) for step in inputs["steps"]}


EXERCISE = Exercise(
    title="What a step waits for",
    parameters=("step", "n_stages"),
    make_cases=_cases,
    oracle=lambda case: [_needed(case)],
    points={VALUES: 2},
)
