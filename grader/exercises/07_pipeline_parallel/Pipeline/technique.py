"""How Pipeline must be done, how it is read, and how it can fail."""

import functools
import re
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch

from grader.calling.schedules_run import ALIVE, DONE, LEFT, as_schedule
from grader.evidence.evidence import RETURNED
from grader.exercises.technique.going_through import Numbers, Told, first_difference, numbers_right, passes_are
from grader.exercises.technique.pipelines import sent_ahead
from grader.exercises.technique.rank_by_rank import on_each_rank, spans_called
from grader.exercises.technique.schedules import peaks
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, only_calls, results_waited, sends_waited, unchanged_under_way
from grader.judging.exercise import Case, Demand, Look, Symptom, Technique
from grader.judging.needs import needs
from grader.judging.symptoms import deadlocked, forgotten_send, group_ignored, no_such_rank, raised, unwaited, wrong_ranks
from utils.schedules.schedule import Schedule, Shape, Step

from .call import floating, squared_error


def shape_in(case: Case, rank: int = 0) -> Shape:
    return Shape(*case.inputs[rank]["shape"])


def schedule_in(case: Case, rank: int = 0) -> Schedule:
    return as_schedule(case.inputs[rank]["schedule"])


def refusal(words: str) -> dict[str, str]:
    """What counts of an error: the step that it names."""
    named = re.search(r"\w+ on stage \d+", words)
    return {"ValueError": f"names {named[0] if named else 'no step'}"}


def _reading(case: Case, found: Any) -> Any:
    return refusal(found["ValueError"]) if "ValueError" in found else found


def _refused(look: Look) -> bool:
    """The case's schedule cannot run."""
    return "ValueError" in look.right[look.working[0]]


def _own_row(look: Look, rank: int) -> list[Step]:
    return schedule_in(look.case, rank)[look.case.group_rank(rank)]


def _marked(look: Look, rank: int) -> list[tuple[Step, float]]:
    """What was done on this rank, in order and when, of all steps of training: from the marks of its stages."""
    split = "W" in shape_in(look.case, rank).kinds
    kinds = {"F": "F", "I": "I", "W": "W"} if split else {"F": "F", "I": "B"}
    marks = sorted((s for s in look.evidence.trace.spans if s.rank == rank and s.name == DONE), key=lambda s: s.start_s)
    return [(Step(kinds[s.facts["kind"]], s.facts["micro"], s.facts["stage"]), s.start_s)
            for s in marks if s.facts["kind"] in kinds]


def _seen(steps: list[Step]) -> list[Step]:
    """The first stage's input needs no gradient: what happens there is seen by its weights only."""
    return [step for step in steps if step.stage > 0 or step.kind in "FW"]


def _in_order(look: Look) -> tuple[bool, str]:
    for rank in () if _refused(look) else look.working:
        wanted = _seen(_own_row(look, rank) * len(look.case.inputs[rank]["xs"]))
        done = _seen([step for step, _ in _marked(look, rank)])
        for number, (a, b) in enumerate(zip(done, wanted, strict=False)):
            if a != b:
                return False, f"rank {rank} did {a} where the schedule has {b} (number {number})"
        if len(done) != len(wanted):
            return False, f"rank {rank} did {len(done)} steps, the schedule has {len(wanted)}"
    return True, ""


def _spanned(look: Look) -> tuple[bool, str]:
    """Each step has a span of its name, each time, and what can be seen of it lies within."""
    for rank in () if _refused(look) else look.working:
        spans = [s for s in look.evidence.trace.spans if s.rank == rank and s.name not in (DONE, ALIVE, LEFT)]
        for step in _own_row(look, rank):
            if sum(s.name == str(step) for s in spans) < len(look.case.inputs[rank]["xs"]):
                return False, f"rank {rank}: no span is called {str(step)!r}"
        for step, when_s in _marked(look, rank):
            if not any(s.name == str(step) and s.start_s <= when_s <= s.end_s for s in spans):
                return False, f"rank {rank}: {step} was computed outside its span"
    return True, ""


# ── what went through ──

Y = "Y"  # what came out of a stage, beside the kinds of steps: what F is given, what I and W compute
WORDS = {"F": "what went in", Y: "what came out", "I": "its input's gradient", "W": "its weight's gradient"}
Part = tuple[str, int]  # (of WORDS, stage)


@functools.lru_cache(maxsize=32)
def _in_one_process(case: Case, first: int) -> dict[Part, list[Numbers]]:
    """Of each stage of the group whose first rank this is: for each micro-batch, those of the first step in front.

    All are computed at once, K in all; each has weights of its own, and so gradients of its own.
    """
    inputs = case.inputs[first]
    xs, ys = ([tensor for step in inputs[name] for tensor in step] for name in ("xs", "ys"))
    weights_KDD = [weight.repeat(len(xs), 1, 1).requires_grad_() for weight, _ in inputs["weights"]]
    x_KBE = torch.stack([floating(x, weights_KDD[0].dtype) for x in xs])
    borders = [x_KBE]
    for weight_KDD, (_, bias) in zip(weights_KDD, inputs["weights"], strict=True):
        out_KBD = torch.tanh(borders[-1][..., :-1] @ weight_KDD + bias)
        borders.append(torch.cat([out_KBD, x_KBE[..., -1:]], -1))
    loss = sum(map(squared_error, borders[-1], ys))
    gradients = torch.autograd.grad(loss, [*borders[1:-1], *weights_KDD])
    found = {(Y, stage): y_KBE[..., :-1] for stage, y_KBE in enumerate(borders[1:])}
    found |= {("F", stage): x_KBE for stage, x_KBE in enumerate(borders[:-1])}
    found |= {("I", stage): dx_KBE for stage, dx_KBE in enumerate(gradients[:-len(weights_KDD)], 1)}
    found |= {("W", stage): dw_KDD for stage, dw_KDD in enumerate(gradients[-len(weights_KDD):])}
    return {part: numbers_right(tensor.flatten(0, 1)).in_pieces(len(xs)) for part, tensor in found.items()}


def _other_numbers(look: Look, rank: int) -> str:
    """Each step of the rank's list, once in each step of training, on what it has in one process."""
    if _refused(look):
        return ""
    marks: dict[tuple[str, int, int], list[dict]] = defaultdict(list)
    for span in [*spans_called(look, rank, DONE), *spans_called(look, rank, ALIVE)]:
        marks[span.facts.get("kind", Y), span.facts["stage"], span.facts["micro"]].append(span.facts)
    forward, gradients, n_micro = [], [], shape_in(look.case, rank).n_micro
    for (what, stage), right in _in_one_process(look.case, look.case.members(rank)[0]).items():
        for micro in range(n_micro) if stage % look.case.group_size(rank) == look.case.group_rank(rank) else ():
            seen, of_steps = marks[what, stage, micro], right[micro::n_micro]
            where = f"rank {rank}, micro-batch {micro} on stage {stage}: {WORDS[what]}"
            if len(seen) != len(of_steps):
                return f"{where} was seen {len(seen)} times, wanted {len(of_steps)}"
            told = [Told.by(mark, numbers, where) for mark, numbers in zip(seen, of_steps, strict=True)]
            (gradients if what in "IW" else forward).extend(told)
    return first_difference(forward, gradients)


# ── what it keeps and sends ──


def _messages_inside(look: Look, rank: int) -> str:
    names = set() if _refused(look) else {str(step) for step in _own_row(look, rank)}
    inside = [(span.name, call.op) for span in look.evidence.trace.spans if span.rank == rank and span.name in names
              for call in look.evidence.trace.of(rank) if span.start_s < call.start_s < span.end_s]
    return f"rank {rank} called {inside[0][1]} inside the span of {inside[0][0]}" if inside else ""


def _let_go(look: Look) -> tuple[bool, str]:
    for rank in () if _refused(look) else look.working:
        allowed = peaks(schedule_in(look.case, rank))[look.case.group_rank(rank)]
        most = max(alive.facts["count"] for alive in spans_called(look, rank, ALIVE))
        if most > allowed:
            return False, f"rank {rank} kept {most} micro-batches' activations, the schedule has {allowed} in flight"
    return True, ""


def _nothing_left(look: Look) -> tuple[bool, str]:
    for rank in () if _refused(look) else look.working:
        left = max(mark.facts["count"] for mark in spans_called(look, rank, LEFT))
        if left:
            return False, f"rank {rank} holds {left} messages after its last step"
    return True, ""


def _sent(look: Look, rank: int) -> float:
    """A message for each step whose result another rank needs."""
    inputs, shape = look.case.inputs[rank], shape_in(look.case, rank)
    if _refused(look) or shape.n_ranks == 1:
        return 0.0
    forward = sum(step.kind == "F" and step.stage < shape.n_stages - 1 for step in _own_row(look, rank))
    backward = sum(step.kind in "BI" and step.stage > 0 for step in _own_row(look, rank))
    return float((forward + backward) * inputs["xs"][0][0].nbytes * len(inputs["xs"]))


def _received(look: Look, rank: int) -> float:
    """A message for each step that needs another rank's result."""
    inputs, shape = look.case.inputs[rank], shape_in(look.case, rank)
    if _refused(look) or shape.n_ranks == 1:
        return 0.0
    forward = sum(step.kind == "F" and step.stage > 0 for step in _own_row(look, rank))
    backward = sum(step.kind in "BI" and step.stage < shape.n_stages - 1 for step in _own_row(look, rank))
    return float((forward + backward) * inputs["xs"][0][0].nbytes * len(inputs["xs"]))


def _sent_ahead(look: Look, rank: int) -> str:
    """A message goes out when its step has been computed, not before."""
    shape, nbytes = shape_in(look.case, rank), look.case.inputs[rank]["xs"][0][0].nbytes
    made_s = [when_s for step, when_s in _marked(look, rank)
              if (step.stage < shape.n_stages - 1 if step.kind == "F" else step.kind in "BI" and step.stage > 0)]
    sent = sent_ahead(look.evidence.trace.of(rank, "send"), made_s, nbytes)
    return f"rank {rank} began to send {sent:,} B before the steps that make them" if sent else ""


def _loss_elsewhere(look: Look, rank: int, found: Any, right: Any) -> bool:
    """It returns something where nothing is due, or nothing where losses are."""
    return not any(found["losses"]) if right["losses"][0] else not same(found["losses"], right["losses"])


def _mixed_up(kinds: str) -> Callable[[Look], bool]:
    """Steps of these kinds were done, of as many micro-batches as they should, but of others than the schedule has there."""

    def of_kinds(steps: list[Step]) -> list[Step]:
        return [step for step in _seen(steps) if step.kind in kinds]

    def matches(look: Look) -> bool:
        rows = [(of_kinds([step for step, _ in _marked(look, rank)]),
                 of_kinds(_own_row(look, rank) * len(look.case.inputs[rank]["xs"]))) for rank in look.working]
        return look.evidence.ending == RETURNED and any(
            done != wanted and sorted(done) == sorted(wanted) for done, wanted in rows)

    return matches


def _part_wrong(part: str) -> Callable[[Look], bool]:
    """On some rank this part of the result is wrong, and no other part on any rank."""

    def matches(look: Look) -> bool:
        wrong = {name for _, found, right in look.pairs() for name in right if not same(found[name], right[name])}
        return look.evidence.ending == RETURNED and wrong == {part}

    return matches


TECHNIQUE = Technique(
    reading=_reading,
    demands=(
        needs(lambda look, r: [("send", _sent(look, r)), ("recv", _received(look, r))]),
        only_calls("send", "recv"),
        Demand("another order", "steps in the schedule's order", _in_order),
        Demand("no spans", "each step inside a span of its name", _spanned),
        Demand("messages in spans", "no message begins inside a step's span", on_each_rank(_messages_inside), forbids=True),
        Demand("kept too long", "activations let go at B or W", _let_go),
        Demand("messages kept", "messages let go after the step", _nothing_left),
        bytes_sent(_sent, "one message for each stage's neighbour"),
        Demand("sent ahead", "messages come of the schedule's steps", on_each_rank(_sent_ahead), gate=True,
               for_right_values=True, forbids=True),
        passes_are(_other_numbers, gate=True),
        results_waited(),
        sends_waited(),
        unchanged_under_way(),
    ),
    symptoms=(
        group_ignored(),
        Symptom("runs what cannot run", _refused),
        Symptom("refused", lambda look: any("ValueError" in found for _, found, _ in look.pairs())),
        forgotten_send(),
        no_such_rank(),
        raised("can require gradients", "gradient of tokens"),
        raised("modified by an inplace operation", "gradients alone wrong"),
        raised("itself", "message to itself"),
        deadlocked("", "deadlock"),
        unwaited(),
    ),
    fallbacks=(
        Symptom("losses elsewhere", wrong_ranks(_loss_elsewhere)),
        raised("does not require grad", "no gradient of the input"),
        raised("NoneType", "no gradient of the input"),
        raised("implicitly created only for scalar", "graphs joined"),
        raised("second time", "graphs joined"),
        Symptom("messages mixed up", _mixed_up("F")),
        Symptom("activations mixed up", _mixed_up("BIW")),
        Symptom("gradients alone wrong", _part_wrong("gradients")),
        Symptom("losses alone wrong", _part_wrong("losses")),
    ),
)
