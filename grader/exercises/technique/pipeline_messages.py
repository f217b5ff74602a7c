"""How one training step of a pipeline can fail: messages that go astray, and gradients that are not there."""

from typing import Any

from grader.evidence.evidence import DEADLOCKED, RETURNED, TIMED_OUT
from grader.judging.compare import same
from grader.judging.exercise import Look, Symptom
from grader.judging.symptoms import deadlocked, forgotten_send, group_ignored, raised, unwaited, wrong_ranks


def _sent_onwards(look: Look) -> bool:
    """More messages to the next stage than micro-batches: gradients among them."""
    for rank in look.working:
        members, place = look.case.members(rank), look.case.group_rank(rank)
        following = members[(place + 1) % len(members)]
        sends = [call for call in look.evidence.trace.of(rank, "send") if call.peer == following]
        outputs = 0 if place == len(members) - 1 else look.case.inputs[rank]["n_micro"]
        if len(members) > 2 and len(sends) > outputs:
            return True
    return False


def _nothing_sent_back(look: Look) -> bool:
    """No stage has sent anything to the stage before it."""
    return not any(call.peer == look.case.members(rank)[look.case.group_rank(rank) - 1]
                   for rank in look.working if look.case.group_rank(rank) > 0
                   for call in look.evidence.trace.of(rank, "send"))


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
                                        "and no detach before backward).", "no graph"),
        raised("second time", "A micro-batch's backward ran twice: each one's output is kept until its own gradient comes, "
               "once.", "backward twice"),
        deadlocked("cycle of sends", crossing, "crossing sends"),
        Symptom("gradient not sent", "A stage waits for a gradient that never comes: after its backward pass every stage "
                                     "but the first sends x.grad to the stage before it.",
                lambda look: look.evidence.ending in (DEADLOCKED, TIMED_OUT) and _nothing_sent_back(look)),
        deadlocked("", "The stages wait for each other. Write down, for two neighbours, the messages that each one sends "
                       "and receives, in order: the lists must fit.", "messages do not fit"),
        unwaited(),
    )


def _no_gradients(look: Look, rank: int, found: Any, right: Any) -> bool:
    return all(gradient is None for gradient in found["gradients"])


def _lost_loss(look: Look, rank: int, found: Any, right: Any) -> bool:
    return same(found["gradients"], right["gradients"]) and "loss" in found


STEP_FALLBACKS = (
    Symptom("nothing backward", "A stage has no gradients: call backward for each micro-batch on every stage.",
            wrong_ranks(_no_gradients)),
    Symptom("loss wrong", "The gradients are right, the loss is not: return the mean over all micro-batches, on the "
                          "last stage.", wrong_ranks(_lost_loss)),
)
