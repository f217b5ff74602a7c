"""What a step of a pipeline waits for: the stage before, the stage after, and its own forward."""

from collections.abc import Callable, Sequence

from grader.exercises.shared.right_faults import NEEDS, needs
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip
from utils.schedules.schedule import Step

Way = Callable[[Step, int], list[Step]]


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    many = draw.integer(5, 7)  # drawn in any case: what follows is drawn from the same numbers
    sizes = [1, 2, 4, *([many] if grading else [])]
    return [Case(f"{n} stage{'s' * (n > 1)}", ({"n_stages": n, "steps": [
        (kind, micro, stage) for kind in "FBIW" for micro in (0, draw.integer(2, 9)) for stage in range(n)]},))
            for n in sizes]


def _all(case: Case, way: Way = needs) -> dict[tuple, list]:
    inputs = case.inputs[0]
    return {tuple(step): sorted(map(tuple, way(Step(*step), inputs["n_stages"]))) for step in inputs["steps"]}


def _way(id: str, hint: str, way: Way) -> Slip:
    """What each step needs in another way."""
    return Slip(id, hint, lambda case, rank, right: _all(case, way))


def _kinds(id: str, hint: str, **of_kinds: list[tuple[str, int]]) -> Slip:
    """Some kinds need something else: (kind, how many stages further on)."""
    return _way(id, hint, lambda step, n_stages: needs(step, n_stages, NEEDS | of_kinds))


def _without_ends(step: Step, n_stages: int) -> list[Step]:
    """As in the middle of a pipeline that goes on at both ends."""
    return [need._replace(stage=need.stage - 1) for need in needs(step._replace(stage=step.stage + 1), n_stages + 2)]


def _in_turn(step: Step, n_stages: int) -> list[Step]:
    """The micro-batch before is waited for too."""
    return needs(step, n_stages) + ([step._replace(micro=step.micro - 1)] if step.micro > 0 else [])


def _indirect(step: Step, n_stages: int) -> list[Step]:
    direct = needs(step, n_stages)
    return list({*direct, *(below for need in direct for below in _indirect(need, n_stages))})


EXERCISE = Exercise(
    title="What a step waits for",
    parameters=("step", "n_stages"),
    make_cases=_cases,
    oracle=lambda case: [_all(case)],
    points={VALUES: 2},
    slips=(
        _kinds("stages reversed", "Activations come from the stage before (stage − 1), gradients from the stage after "
                                  "(stage + 1): you have it the other way round.",
               F=[("F", +1)], B=[("F", 0), ("B", -1)], I=[("F", 0), ("I", -1)]),
        _kinds("own forward forgotten", "A backward also needs the activations that its own forward left on this stage.",
               B=[("B", +1)], I=[("I", +1)]),
        _way("ends of the pipeline", "The first stage's forward waits for no stage, nor does the last stage's backward: "
                                     "there is no stage −1 and no stage n_stages.", _without_ends),
        _kinds("weights first", "W comes after I: the gradient of the input is found first, and the weights' gradients use "
                                "what it found on its way.", I=[("F", 0), ("I", +1), ("W", 0)], W=[("F", 0)]),
        _kinds("weights wait for weights", "The weights' gradients need nothing from another stage: W waits for the I of "
                                           "its own stage only.", W=[("F", 0), ("W", +1)]),
        _kinds("waits for the weights", "I needs the gradient from the stage after, which that stage's I gives. It need "
                                        "not wait for its W: that is what the split is for.",
               I=[("F", 0), ("I", +1), ("W", +1)]),
        _kinds("kinds mixed", "A schedule has B, or I and W. In one with I the gradient comes from the I of the stage "
                              "after.", I=[("F", 0), ("B", +1)]),
        _way("one after another", "Micro-batches do not need each other. In which order a rank takes them, the schedule "
                                  "says.", _in_turn),
        _way("needs of needs", "Only direct needs: what those need in turn is their own affair.", _indirect),
    ),
)
