"""How a pipeline of stages must be run: its messages, in which order its passes come; and how a training step can fail."""

import functools
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any

import torch

from grader.calling.going_through import DX, DY, X, Y
from grader.calling.pipelining import IN_FLIGHT, PASS, SOMETHING, as_floats, mean_loss
from grader.evidence.evidence import DEADLOCKED, RETURNED, TIMED_OUT
from grader.exercises.technique.going_through import Rows, not_its_micro_batches, numbers_right, passes_are
from grader.exercises.technique.rank_by_rank import not_seen, on_each_rank, spans_called
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, only_calls, results_waited, sends_waited, unchanged_under_way
from grader.judging.exercise import Case, Demand, Look, Symptom, Technique
from grader.judging.needs import needs
from grader.judging.symptoms import deadlocked, forgotten_send, group_ignored, raised, unwaited, wrong_ranks
from utils.trace.trace import Call

ByStage = Callable[[int, int, int], int]  # (stages, stage, micro-batches) -> a number


def only_neighbours() -> Demand:
    return only_calls("send", "recv")


def passes(look: Look, rank: int) -> list[tuple[str, int, float]]:
    """(F or B, micro-batch, when) of a rank's stage, in order."""
    spans = [s for s in look.evidence.trace.spans if s.rank == rank and s.name == PASS]
    return [(s.facts["kind"], s.facts["micro"], s.start_s) for s in spans]


def oldest_first() -> Demand:
    """Micro-batches go backward in the order in which they went forward."""

    def judge(look: Look) -> tuple[bool, str]:
        for rank in look.working:
            micros = [micro for kind, micro, _ in passes(look, rank) or not_seen(rank, PASS) if kind == "B"]
            if micros != sorted(micros):
                return False, f"rank {rank} went backward through micro-batches {', '.join(map(str, micros))}"
        return True, ""

    return Demand("newest first", "backward through the oldest micro-batch first", judge)


def order(wanted: Callable[[int, int, int], str], id: str, label: str) -> Demand:
    """Each rank's passes come in the order wanted(stages, stage, micro-batches), such as "FFFBBB"."""

    def judge(look: Look) -> tuple[bool, str]:
        for rank in look.working:
            right, done = wanted(*_place(look, rank)), "".join(kind for kind, *_ in passes(look, rank))
            if done != right:
                return False, f"rank {rank} did {done or 'nothing'}, wanted {right}"
        return True, ""

    return Demand(id, label, judge)


def in_flight_at_most(limit: ByStage, label: str) -> Demand:
    """Autograd never keeps the activations of more micro-batches than limit(stages, stage, micro-batches).

    Outputs whose backward is done may be held a little longer: one of them, as a variable that is not yet overwritten.
    """

    def judge(look: Look) -> tuple[bool, str]:
        for flow in look.evidence.messages.flows if look.evidence.messages else ():  # each output ahead of its gradient
            if flow.kind == "send" and flow.source in look.working and flow.target in _following(look, flow.source):
                allowed = limit(*_place(look, flow.source))
                if flow.ahead > allowed:
                    return False, f"rank {flow.source} was {flow.ahead} outputs ahead of their gradients, allowed {allowed}"
        for rank in look.working:
            marks, allowed = [mark.facts for mark in spans_called(look, rank, IN_FLIGHT)], limit(*_place(look, rank))
            most, held = (max(facts[what] for facts in marks) for what in ("count", "outputs"))
            if most > allowed:
                return False, f"rank {rank} kept activations of {most} micro-batches, allowed {allowed}"
            if held > allowed:
                return False, f"rank {rank} held outputs of {held} micro-batches, allowed {allowed}"
        return True, ""

    return Demand("activations kept too long", label, judge)


def _following(look: Look, rank: int) -> tuple[int, ...]:
    """The next stage; none after the last."""
    place = look.case.group_rank(rank) + 1
    return look.case.members(rank)[place:place + 1]


def _place(look: Look, rank: int) -> tuple[int, int, int]:
    members = look.case.members(rank)
    return len(members), members.index(rank), look.case.inputs[rank]["n_micro"]


def outputs_sent(label: str, back: bool) -> Demand:
    """A stage sends its outputs to the next one and, if `back`, the gradients of its inputs to the one before."""

    def limit(look: Look, rank: int) -> int:
        inputs, members, place = look.case.inputs, look.case.members(rank), look.case.group_rank(rank)
        forward = inputs[members[place + 1]]["like"].nbytes if place + 1 < len(members) else 0
        backward = inputs[rank]["like"].nbytes if back and place else 0
        return inputs[rank]["n_micro"] * (forward + backward)

    return bytes_sent(limit, label)


def messages_with_passes(back: bool) -> Demand:
    """A message leaves once its pass has begun; by a stage's last pass, most of those before are on their way."""

    def fault(look: Look, rank: int) -> str:
        members, place = look.case.members(rank), look.case.group_rank(rank)
        if place + 1 < len(members) and (said := _beside_passes(look, rank, "F", members[place + 1], members[place + 1])):
            return said
        return _beside_passes(look, rank, "B", members[place - 1], rank) if back and place else ""

    return Demand("not with the passes", "each message leaves with its pass", on_each_rank(fault), forbids=True)


def received_with_passes(back: bool) -> Demand:
    """Before a pass begins, at most two messages more have been waited for than passes like it were made: one may come
    early."""

    def fault(look: Look, rank: int) -> str:
        members, place = look.case.members(rank), look.case.group_rank(rank)
        sides = [("F", members[place - 1], rank)] if place else []
        sides += [("B", members[place + 1], members[place + 1])] if back and place + 1 < len(members) else []
        for kind, peer, receiver in sides:
            nbytes = look.case.inputs[receiver]["like"].nbytes
            waits = [call for call in look.evidence.trace.of(rank, "recv") if call.peer == peer and call.waited]
            for number, begun_s in enumerate(s for k, _, s in passes(look, rank) if k == kind):
                waited = sum(call.bytes for call in waits if call.wait_start_s < begun_s)
                if waited > (number + 2) * nbytes:
                    return (f"rank {rank} waited for {waited:,} B from rank {peer} before its {kind} number {number}, of "
                            f"{nbytes:,} B each")
        return ""

    return Demand("received first", "a stage computes as soon as it has a micro-batch", on_each_rank(fault), forbids=True)


def sent_ahead(sends: Iterable[Call], made_s: list[float], nbytes: int) -> int:
    """How many bytes were under way when they were first more than had been made, `nbytes` at each of these times; or 0."""
    sent = 0
    for call in sends:
        sent += call.bytes
        if sum(when_s <= call.start_s for when_s in made_s) * nbytes < sent:
            return sent
    return 0


def _beside_passes(look: Look, rank: int, kind: str, peer: int, receiver: int) -> str:
    """What is wrong with a rank's messages to `peer`, like what `receiver` receives, one for each of its passes."""
    nbytes, begun_s = look.case.inputs[receiver]["like"].nbytes, [s for k, _, s in passes(look, rank) if k == kind]
    sends = [call for call in look.evidence.trace.of(rank, "send") if call.peer == peer and call.bytes]
    if sent := sent_ahead(sends, begun_s, nbytes):
        return f"rank {rank} began to send {sent:,} B to rank {peer} before it had computed them"
    early = sum(call.bytes for call in sends if begun_s and call.start_s <= begun_s[-1])
    if 2 * early < (len(begun_s) - 2) * nbytes:
        return f"rank {rank} had sent {early:,} B to rank {peer} when its last {kind} began, after {len(begun_s) - 1} others"
    return ""


def micro_batches_themselves() -> Demand:
    """What goes through a stage are the micro-batches, each once, and all the way."""
    return passes_are(not_its_micro_batches(
        lambda case, rank: [_in_one_process(case, case.members(rank)[0])[case.group_rank(rank)]]), gate=False)


@functools.lru_cache(maxsize=32)
def _in_one_process(case: Case, first: int) -> list[Rows]:
    """Of each stage of the group whose first rank this is, from the whole batch at once; gradients where there is a loss."""
    members = case.members(first)
    x, y = case.inputs[first]["x"], case.inputs[members[-1]].get("y")
    borders = [as_floats(x, case.inputs[first]["layers"][0][0].dtype)]
    for member in members:
        out = borders[-1]
        for weight, bias in case.inputs[member]["layers"]:
            out = torch.tanh(torch.nn.functional.linear(out, weight, bias))
        borders.append(out.requires_grad_())
        out.retain_grad()
    rows = [{X: numbers_right(x.detach()), Y: numbers_right(y.detach())} for x, y in pairwise(borders)]
    if y is not None:
        mean_loss(borders[-1], y).backward()
        for of_stage, (x, y) in zip(rows, pairwise(borders), strict=True):
            of_stage |= {DY: numbers_right(y.grad)} | ({DX: numbers_right(x.grad)} if x.requires_grad else {})
    return rows


def neighbours_needed(back: bool) -> Demand:
    """Each stage needs the outputs of the one before and, if `back`, the gradients that the next one has."""

    def transfers(look: Look, rank: int) -> Iterator[tuple[str, float]]:
        inputs, members, place = look.case.inputs, look.case.members(rank), look.case.group_rank(rank)
        for sender, receiver in pairwise(members[max(place - 1, 0):place + 2]):
            nbytes = inputs[rank]["n_micro"] * inputs[receiver]["like"].nbytes
            yield ("send" if sender == rank else "recv"), nbytes
            if back:
                yield ("recv" if sender == rank else "send"), nbytes

    return needs(transfers)


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
    """Some stage has gone backward, and none has sent anything to the stage before it."""
    backward = any(kind == "B" for rank in look.working for kind, *_ in passes(look, rank))
    return backward and not any(
        call.peer == look.case.members(rank)[look.case.group_rank(rank) - 1]
        for rank in look.working if look.case.group_rank(rank) > 0 for call in look.evidence.trace.of(rank, "send"))


def step_technique(passes: tuple[Demand, ...]) -> Technique:
    """passes: what is asked of the passes' order."""
    return Technique(
        call="pipelining:call_pipeline_step",
        demands=(
            only_neighbours(),
            *passes,
            oldest_first(),
            outputs_sent("each output forward once, each gradient back once", back=True),
            messages_with_passes(back=True),
            received_with_passes(back=True),
            neighbours_needed(back=True),
            results_waited(),
            sends_waited(),
            unchanged_under_way(),
            micro_batches_themselves(),
        ),
        symptoms=_message_symptoms(),
        fallbacks=(
            Symptom("nothing backward", wrong_ranks(_no_gradients)),
            Symptom("loss elsewhere", wrong_ranks(lambda look, rank, found, right: found["loss"] == SOMETHING)),
            Symptom("loss attached",
                    wrong_ranks(lambda look, rank, found, right: look.same({**found, "detached": True}, right))),
            Symptom("loss wrong", wrong_ranks(_lost_loss)),
            Symptom("activations overwritten", _only_gradients),
            Symptom("other rows of y", _wrong_loss),
        ),
    )


def _message_symptoms() -> tuple[Symptom, ...]:
    """Runs that come to no end, or to an error."""
    return (
        group_ignored(),
        forgotten_send(),
        raised("can require gradients", "gradient of tokens"),
        raised("modified by an inplace operation", "activations overwritten"),
        *(raised(error, "nothing kept") for error in ("pop from", "index out of range", "StopIteration")),
        deadlocked("size differs", "another size"),
        deadlocked("dtype differs", "another size"),
        Symptom("sent the wrong way", lambda look: look.evidence.ending != RETURNED and _sent_onwards(look)),
        raised("NoneType", "no gradient of the input"),
        raised("does not require grad", "no graph"),
        raised("second time", "backward twice"),
        deadlocked("cycle of sends", "crossing sends"),
        Symptom("gradient not sent",
                lambda look: look.evidence.ending in (DEADLOCKED, TIMED_OUT) and _nothing_sent_back(look)),
        deadlocked("", "messages do not fit"),
        unwaited(),
    )


def _no_gradients(look: Look, rank: int, found: Any, right: Any) -> bool:
    return all(gradient is None for gradient in found["gradients"])


def _only_gradients(look: Look) -> bool:
    """The last ranks' losses are right."""
    return look.evidence.ending == RETURNED and all(
        same(found, {**right, "gradients": found["gradients"]}) for _, found, right in look.pairs())


def _wrong_loss(look: Look) -> bool:
    return look.evidence.ending == RETURNED and any(
        right["loss"] is not None and not same(found["loss"], right["loss"]) for _, found, right in look.pairs())


def _lost_loss(look: Look, rank: int, found: Any, right: Any) -> bool:
    return same(found["gradients"], right["gradients"]) and not same(found["loss"], right["loss"])
