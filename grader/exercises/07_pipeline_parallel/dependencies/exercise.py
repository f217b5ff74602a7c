"""What a step of a pipeline waits for: the stage before, the stage after, and its own forward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from grader.evidence.evidence import RETURNED
from grader.exercises.shared import schedule_oracle as oracle
from grader.judging.demands import only_calls
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Look, Symptom, Technique
from utils.schedules.schedule import Step


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [1, 2, 4] + [draw.integer(5, 7)] * grading
    return [Case(f"{n} stage{'s' * (n > 1)}", ({"n_stages": n, "steps": [
        (kind, micro, stage) for kind in "FBIW" for micro in (0, draw.integer(2, 9)) for stage in range(n)]},))
            for n in sizes]


def _all(case: Case, way: Callable[[Step, int], list] = oracle.needs) -> dict[tuple, list]:
    inputs = case.inputs[0]
    return {tuple(step): sorted(map(tuple, way(Step(*step), inputs["n_stages"]))) for step in inputs["steps"]}


def _reading(case: Case, found: Any) -> Any:
    """In any order; a step named twice is named twice."""
    return {step: sorted(map(tuple, needs)) for step, needs in found.items()}


def _as(way: Callable[[Step, int], list]) -> Callable[[Look], bool]:
    """Every step whose needs are wrong has those that `way` gives."""

    def matches(look: Look) -> bool:
        if look.evidence.ending != RETURNED:
            return False
        found, wrong_way = _reading(look.case, look.outputs[0]), _all(look.case, way)
        wrong = [step for step, needs in look.right[0].items() if found[step] != needs]
        return bool(wrong) and all(found[step] == wrong_way[step] for step in wrong)

    return matches


def _reversed(step: Step, n_stages: int) -> list[Step]:
    kind, micro, stage = step
    if kind == "W":
        return oracle.needs(step, n_stages)
    if kind == "F":
        return [Step("F", micro, stage + 1)] * (stage < n_stages - 1)
    return [Step("F", micro, stage)] + [Step(kind, micro, stage - 1)] * (stage > 0)


def _without_ends(step: Step, n_stages: int) -> list[Step]:
    kind, micro, stage = step
    if kind == "F":
        return [Step("F", micro, stage - 1)]
    return oracle.needs(step, n_stages) if kind == "W" else [Step("F", micro, stage), Step(kind, micro, stage + 1)]


def _weights_first(step: Step, n_stages: int) -> list[Step]:
    if step.kind == "W":
        return [Step("F", step.micro, step.stage)]
    return oracle.needs(step, n_stages) + [Step("W", step.micro, step.stage)] * (step.kind == "I")


def _weights_as_backward(step: Step, n_stages: int) -> list[Step]:
    if step.kind != "W":
        return oracle.needs(step, n_stages)
    return [Step("F", step.micro, step.stage)] + [Step("W", step.micro, step.stage + 1)] * (step.stage < n_stages - 1)


def _waits_for_weights(step: Step, n_stages: int) -> list[Step]:
    last = step.stage == n_stages - 1
    return oracle.needs(step, n_stages) + [Step("W", step.micro, step.stage + 1)] * (step.kind == "I" and not last)


def _whole(step: Step, n_stages: int) -> list[Step]:
    """I waits for a B."""
    return [need._replace(kind="B") if need.kind == "I" and step.kind == "I" else need
            for need in oracle.needs(step, n_stages)]


def _in_turn(step: Step, n_stages: int) -> list[Step]:
    """The micro-batch before is waited for too."""
    return oracle.needs(step, n_stages) + [step._replace(micro=step.micro - 1)] * (step.micro > 0)


def _indirect(step: Step, n_stages: int) -> list[Step]:
    found, wanted = [], oracle.needs(step, n_stages)
    while wanted:
        one = wanted.pop()
        if one not in found:
            found.append(one)
            wanted += oracle.needs(one, n_stages)
    return found


EXERCISE = Exercise(
    title="What a step waits for",
    parameters=("step", "n_stages"),
    make_cases=_cases,
    oracle=lambda case: [_all(case)],
    points={VALUES: 2},
    technique=Technique(
        reading=_reading,
        demands=(only_calls(id="communicates", hint="This is a question about data: no message is needed."),),
        symptoms=(
        Symptom("stages reversed", "Activations come from the stage before (stage − 1), gradients from the stage after "
                                   "(stage + 1): you have it the other way round.", _as(_reversed)),
        Symptom("own forward forgotten", "A backward also needs the activations that its own forward left on this stage.",
                _as(lambda step, n: oracle.needs(step, n, own=False))),
        Symptom("ends of the pipeline", "The first stage's forward waits for no stage, nor does the last stage's backward: "
                                        "there is no stage −1 and no stage n_stages.", _as(_without_ends)),
        Symptom("weights first", "W comes after I: the gradient of the input is found first, and the weights' gradients use "
                                 "what it found on its way.",
                lambda look: look.case.inputs[0]["n_stages"] > 1 and _as(_weights_first)(look)),
        Symptom("weights wait for weights", "The weights' gradients need nothing from another stage: W waits for the I of "
                                            "its own stage only.", _as(_weights_as_backward)),
        Symptom("waits for the weights", "I needs the gradient from the stage after, which that stage's I gives. It need "
                                         "not wait for its W: that is what the split is for.", _as(_waits_for_weights)),
        Symptom("kinds mixed", "A schedule has B, or I and W. In one with I the gradient comes from the I of the stage "
                               "after.", _as(_whole)),
        Symptom("one after another", "Micro-batches do not need each other. In which order a rank takes them, the schedule "
                                     "says.", _as(_in_turn)),
        Symptom("needs of needs", "Only direct needs: what those need in turn is their own affair.", _as(_indirect)),
    ),
    ),
)
