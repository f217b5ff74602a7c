"""GPipe's training step: every micro-batch forward, then every one backward, gradients summed on each stage."""

from __future__ import annotations

from collections.abc import Sequence

from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.one_process import TOLERANCE
from grader.exercises.shared.pipeline_demands import P2P_ONLY, order
from grader.exercises.shared.pipeline_inputs import pipeline_cases, plain_step, sent_bytes, staged_step
from grader.exercises.shared.pipeline_steps import STEP_PARAMETERS, as_step, gradient_symptoms, message_symptoms
from grader.judging.demands import bytes_sent, only_calls, results_waited, sends_waited
from grader.judging.exercise import Case, Draw, Exercise, Symptom, Technique


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(1, 2, 2, "float64"), (2, 3, 3, "float64"), (3, 4, 1, "float32"), (4, 5, 2, "bfloat16"), (4, 2, 3, "float64")]
    sizes += [(5, 3, 2, "float64"), (2, draw.integer(5, 7), 1, "float64"), (3, 1, 4, "float64")] * grading
    return pipeline_cases(draw, grading, sizes)


EXERCISE = Exercise(
    title="All forward, then all backward",
    parameters=STEP_PARAMETERS,
    make_cases=_cases,
    oracle=each_rank(plain_step),
    tolerance=TOLERANCE,
    points={"values": 4, "technique": 4},
    technique=Technique(
        demands=(
        only_calls("send", "recv", hint=P2P_ONLY),
        order(lambda p, r, m: "F" * m + "B" * m, "not all forward first", "n_micro forward passes, then n_micro backward",
              "The gradients are right, but the passes come in another order than GPipe's: first every micro-batch forward, "
              "each by itself, then every one backward."),
        bytes_sent(lambda look, rank: sent_bytes(look, rank, back=True), "each output forward once, each gradient back once",
                   "Right, but more is sent than needed: outputs to the next stage, gradients of inputs to the one before."),
        results_waited(),
        sends_waited(),
    ),
        symptoms=(
        *message_symptoms("Two stages send to each other and neither receives: in GPipe all forward messages come before "
                          "all backward ones, on every stage."),
        *gradient_symptoms(
            Symptom("micro-batches mixed up", "A gradient met the activations of another micro-batch: every stage must go "
                                              "backward through the micro-batches in the same order.",
                    as_step(lambda look, r: staged_step(look.case, r, lambda place, k: _mixed(look.case, r, place, k)))),
        ),
    ),
    ),
)


def _mixed(case: Case, rank: int, place: int, k: int) -> int:
    """The last stage goes backward from the first micro-batch to the last, the others the reverse."""
    m = case.inputs[rank]["n_micro"]
    return k if place == len(case.members(rank)) - 1 else m - 1 - k
