"""1F1B's training step: as soon as a gradient can come, one forward and one backward in turn; few activations stand."""

from __future__ import annotations

from collections.abc import Sequence

from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.one_process import TOLERANCE
from grader.exercises.shared.pipeline_demands import P2P_ONLY, in_flight_at_most, order
from grader.exercises.shared.pipeline_inputs import pipeline_cases, plain_step, sent_bytes, staged_step
from grader.exercises.shared.pipeline_steps import STEP_PARAMETERS, as_step, gradient_symptoms, message_symptoms
from grader.judging.demands import bytes_sent, only_calls, results_waited, sends_waited
from grader.judging.exercise import Case, Draw, Exercise, Symptom, Technique


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    """More micro-batches than stages, as many, and fewer."""
    sizes = [(1, 2, 2, "float64"), (2, 3, 3, "float64"), (3, 5, 1, "float32"), (4, 6, 2, "bfloat16"), (4, 2, 1, "float64")]
    sizes += [(5, 7, 2, "float64"), (2, draw.integer(5, 7), 1, "float64"), (3, 1, 4, "float64")] * grading
    return pipeline_cases(draw, grading, sizes)


def wanted_order(p: int, r: int, m: int) -> str:
    """Stage r of p: its warm-up, then one forward and one backward in turn, then the backward passes that are left."""
    warm_up = min(p - 1 - r, m)
    return "F" * warm_up + "FB" * (m - warm_up) + "B" * warm_up


def _applied(case: Case, rank: int, place: int, k: int) -> int:
    """The newest micro-batch that is kept, not the oldest, meets the k-th gradient."""
    kept, forward, back = [], 0, 0
    for kind in wanted_order(len(case.members(rank)), place, case.inputs[rank]["n_micro"]):
        if kind == "F":
            kept.append(forward)
            forward += 1
            continue
        newest = kept.pop()
        if back == k:
            return newest
        back += 1
    raise ValueError(f"no backward pass {k}")


EXERCISE = Exercise(
    title="One forward, one backward",
    parameters=STEP_PARAMETERS,
    make_cases=_cases,
    oracle=each_rank(plain_step),
    tolerance=TOLERANCE,
    points={"values": 4, "technique": 4},
    technique=Technique(
        demands=(
        only_calls("send", "recv", hint=P2P_ONLY),
        in_flight_at_most(lambda p, r, m: min(p - r, m), "at most p − r micro-batches in flight on stage r",
                          "The gradients are right, but activations pile up: a stage starts a new micro-batch only when "
                          "it has "
                          "done a backward pass for one, and backward frees that one's (no retain_graph)."),
        order(wanted_order, "another order", "warm-up of p − 1 − r, then forward and backward in turn",
              "The gradients are right, but the passes come in another order than 1F1B's: min(p − 1 − r, n_micro) forward "
              "passes first, then one forward and one backward in turn, then the backward passes that are left."),
        bytes_sent(lambda look, rank: sent_bytes(look, rank, back=True), "each output forward once, each gradient back once",
                   "Right, but more is sent than needed: outputs to the next stage, gradients of inputs to the one before."),
        results_waited(),
        sends_waited(),
    ),
        symptoms=(
        *message_symptoms("A stage sends an output to the next one, which at that moment sends a gradient back: each waits "
                          "for the other to receive. Use isend, and wait for the Works later."),
        *gradient_symptoms(
            Symptom("stale activations", "A gradient met the newest activations that are kept, not its own: gradients "
                                         "come in "
                                         "the order of the forward passes, so take the oldest (first in, first out).",
                    as_step(lambda look, r: staged_step(look.case, r, lambda place, k: _applied(look.case, r, place, k)))),
        ),
    ),
    ),
)
