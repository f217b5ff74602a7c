"""What the exercises of one whole training step share: mistakes in gradients, and messages that go astray."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grader.evidence.evidence import DEADLOCKED, RETURNED, TIMED_OUT
from grader.exercises.shared.pipeline_inputs import scaled_step, staged_step
from grader.judging.compare import same
from grader.judging.exercise import Look, Symptom
from grader.judging.symptoms import deadlocked, forgotten_send, group_ignored, raised, unwaited, wrong_ranks

STEP_PARAMETERS = ("stage", "x_BD", "y_BO", "loss_fn", "n_micro", "like_MD", "group")


def as_step(step: Callable[[Look, int], dict[str, Any]]) -> Callable[[Look], bool]:
    """The gradients of every wrong rank are those of another way, which are not the right ones."""

    def test(look: Look, rank: int, found: Any, expected: Any) -> bool:
        instead = step(look, rank)["gradients"]
        return same(found["gradients"], instead) and not same(expected["gradients"], instead)

    return wrong_ranks(test)


def _micro(look: Look, rank: int) -> int:
    return look.case.inputs[rank]["n_micro"]


def _no_gradients(look: Look, rank: int, found: Any, expected: Any) -> bool:
    return all(one is None for one in found["gradients"])


def _lost_loss(look: Look, rank: int, found: Any, expected: Any) -> bool:
    return same(found["gradients"], expected["gradients"]) and "loss" in found


def _sent_onwards(look: Look) -> bool:
    """More messages to the next stage than micro-batches: gradients among them."""
    for rank in look.working:
        members, place = look.case.members(rank), look.case.group_rank(rank)
        following = members[(place + 1) % len(members)]
        sends = [call for call in look.evidence.trace.of(rank, "send") if call.peer == following]
        last = place == len(members) - 1
        if len(members) > 2 and len(sends) > (0 if last else _micro(look, rank)):
            return True
    return False


def _nothing_sent_back(look: Look) -> bool:
    """A stage that is not the first one has got gradients and sent none to the stage before."""
    trace = look.evidence.trace
    return look.evidence.ending != RETURNED and not any(
        call.peer == before for rank in look.working for call in trace.of(rank, "send")
        for before in look.case.members(rank)[max(0, look.case.group_rank(rank) - 1):look.case.group_rank(rank)])


def message_symptoms(crossing: str) -> tuple[Symptom, ...]:
    """Runs that come to no end, or to an error; crossing: the hint where sends wait for each other."""
    return (
        group_ignored(),
        forgotten_send(),
        Symptom("sent the wrong way", "Gradients go back: the gradient of a stage's input goes to the stage before it, "
                                      "which made that input.",
                lambda look: look.evidence.ending != RETURNED and _sent_onwards(look)),
        raised("NoneType", "Something is None: the gradient of a received x is there only after "
               "x.requires_grad_() before the forward pass; y and the loss exist on the last stage only, x_BD on the first.",
               "no gradient of the input"),
        raised("does not require grad", "Backward found no graph: the forward pass must be recorded (no torch.no_grad, "
                                        "and no "
               "detach before backward).", "no graph"),
        raised("second time", "A micro-batch's backward ran twice: each one's output is kept until its own gradient comes, "
               "once.", "backward twice"),
        deadlocked("cycle of sends", crossing, "crossing sends"),
        Symptom("gradient not sent", "A stage waits for a gradient that never comes: after its backward pass every stage "
                                     "but the first sends x.grad to the stage before it.",
                lambda look: look.evidence.ending in (DEADLOCKED, TIMED_OUT) and _nothing_sent_back(look)),
        deadlocked("", "The stages wait for each other. Write down, for two neighbours, the messages that each one sends "
                       "and "
                   "receives, in order: the lists must fit.", "messages do not fit"),
        unwaited(),
    )


def gradient_symptoms(*more: Symptom) -> tuple[Symptom, ...]:
    """Wrong gradients; more: those of one exercise, which come before "a local loss"."""
    return (
        Symptom("not divided", "The gradients are n_micro times too large: the loss is the mean over micro-batches, so each "
                               "one's loss is divided by their number before backward.",
                as_step(lambda look, r: scaled_step(look.case, r, _micro(look, r)))),
        Symptom("divided twice", "The gradients are n_micro times too small: divide by the number of micro-batches once, at "
                                 "the loss. The gradients that travel carry the factor already.",
                wrong_ranks(_divided_again)),
        Symptom("last micro-batch only", "Only the last micro-batch is in the gradients: those of all micro-batches add up, "
                                         "so never clear or overwrite them in between.",
                as_step(lambda look, r: staged_step(look.case, r, last_only=True))),
        *more,
        Symptom("local loss", "Each stage went backward from its own output, as if that were a loss. Only the last stage "
                              "has the loss; the others use the gradient that they receive: output.backward(gradient).",
                as_step(lambda look, r: staged_step(look.case, r, local=True))),
        Symptom("nothing backward", "A stage has no gradients: call backward for each micro-batch on every stage.",
                wrong_ranks(_no_gradients)),
        Symptom("loss wrong", "The gradients are right, the loss is not: return the mean over all micro-batches, on the "
                              "last stage.", wrong_ranks(_lost_loss)),
    )


def _divided_again(look: Look, rank: int, found: Any, expected: Any) -> bool:
    """Once more at the loss, or once more at every stage that the gradient passes."""
    m, hops = _micro(look, rank), len(look.case.members(rank)) - look.case.group_rank(rank)
    return m > 1 and any(same(found["gradients"], scaled_step(look.case, rank, 1.0 / m ** k)["gradients"])
                         for k in range(1, hops + 1))
