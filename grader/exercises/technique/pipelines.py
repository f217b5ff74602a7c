"""How a pipeline of stages must be run: its messages, in which order its passes come; and how a training step can fail."""

from collections.abc import Callable
from typing import Any

from grader.calling.pipelining import IN_FLIGHT, PASS, SOMETHING
from grader.evidence.evidence import DEADLOCKED, RETURNED, TIMED_OUT
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, only_calls, results_waited, sends_waited
from grader.judging.exercise import Demand, Look, Symptom, Technique
from grader.judging.symptoms import deadlocked, forgotten_send, group_ignored, raised, unwaited, wrong_ranks

ByStage = Callable[[int, int, int], int]  # (stages, stage, micro-batches) -> a number


def only_neighbours() -> Demand:
    return only_calls("send", "recv", hint=(
        "Stages are neighbours: each talks to the one before it and the next one only, by send and recv (isend, irecv, "
        "batch_isend_irecv). A collective would make all of them wait."))


def passes(look: Look, rank: int) -> list[tuple[str, int, float]]:
    """(F or B, micro-batch, when) of a rank's stage, in order."""
    spans = [s for s in look.evidence.trace.spans if s.rank == rank and s.name == PASS]
    return [(s.facts["kind"], s.facts["micro"], s.start_s) for s in spans]


def order(wanted: Callable[[int, int, int], str], id: str, label: str, hint: str) -> Demand:
    """Each rank's passes come in the order wanted(stages, stage, micro-batches), such as "FFFBBB"."""

    def judge(look: Look) -> tuple[bool, str]:
        for rank in look.working:
            right, done = wanted(*_place(look, rank)), "".join(kind for kind, *_ in passes(look, rank))
            if done != right:
                return False, f"rank {rank} did {done or 'nothing'}, wanted {right}"
        return True, ""

    return Demand(id, label, hint, judge)


def in_flight_at_most(limit: ByStage, label: str, hint: str) -> Demand:
    """Autograd never keeps the activations of more micro-batches than limit(stages, stage, micro-batches)."""

    def judge(look: Look) -> tuple[bool, str]:
        for rank in look.working:
            counts = [s.facts["count"] for s in look.evidence.trace.spans if s.rank == rank and s.name == IN_FLIGHT]
            most, allowed = max(counts, default=0), limit(*_place(look, rank))
            if most > allowed:
                return False, f"rank {rank} kept activations of {most} micro-batches, allowed {allowed}"
        return True, ""

    return Demand("activations kept too long", label, hint, judge)


def _place(look: Look, rank: int) -> tuple[int, int, int]:
    members = look.case.members(rank)
    return len(members), members.index(rank), look.case.inputs[rank]["n_micro"]


def outputs_sent(label: str, hint: str, back: bool) -> Demand:
    """A stage sends its outputs to the next one and, if `back`, the gradients of its inputs to the one before."""

    def limit(look: Look, rank: int) -> int:
        inputs, members, place = look.case.inputs, look.case.members(rank), look.case.group_rank(rank)
        forward = inputs[members[place + 1]]["like"].nbytes if place + 1 < len(members) else 0
        backward = inputs[rank]["like"].nbytes if back and place else 0
        return inputs[rank]["n_micro"] * (forward + backward)

    return bytes_sent(limit, label, hint)


# ── a training step ──


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


def step_technique(passes: tuple[Demand, ...], crossing: str) -> Technique:
    """passes: what is asked of the passes' order; crossing: the hint where sends wait for each other."""
    return Technique(
        demands=(
            only_neighbours(),
            *passes,
            outputs_sent("each output forward once, each gradient back once",
                         "Right, but more is sent than needed: outputs to the next stage, gradients of inputs to the one "
                         "before.", back=True),
            results_waited(),
            sends_waited(),
        ),
        symptoms=_message_symptoms(crossing),
        fallbacks=(
            Symptom("nothing backward", "A stage has no gradients: call backward for each micro-batch on every stage.",
                    wrong_ranks(_no_gradients)),
            Symptom("loss elsewhere", "Only the last rank has the loss: the others return None.",
                    wrong_ranks(lambda look, rank, found, right: found["loss"] == SOMETHING)),
            Symptom("loss attached", "The loss that comes back still holds its graph, and that the activations: return "
                                     "loss.detach().",
                    wrong_ranks(lambda look, rank, found, right: same({**found, "detached": True}, right, 1e-6))),
            Symptom("loss wrong", "The gradients are right, the loss is not: return the mean over all micro-batches, on the "
                                  "last stage.", wrong_ranks(_lost_loss)),
        ),
    )


def _message_symptoms(crossing: str) -> tuple[Symptom, ...]:
    """Runs that come to no end, or to an error."""
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
    return same(found["gradients"], right["gradients"]) and not same(found["loss"], right["loss"])
