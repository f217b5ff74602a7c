"""One executor for all schedules: any valid one, run with real tensors, in its own order and memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from grader.calling.schedules_run import ALIVE, DONE, squared_error
from grader.evidence.evidence import DEADLOCKED, RETURNED
from grader.exercises.shared import right_orders
from grader.exercises.shared import schedule_oracle as oracle
from grader.exercises.shared.cases import each_rank, group_case
from grader.exercises.shared.one_process import TOLERANCE
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, only_calls, results_waited, sends_waited
from grader.judging.exercise import Case, Demand, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import deadlocked, forgotten_send, group_ignored, raised, unwaited
from utils.schedules.schedule import Shape, Step, shape_of, written

ROWS, DIM = 2, 3


def _inputs(draw: Draw, rows: oracle.Rows, shape: Shape | None = None, steps: int = 2, dtype=torch.float64) -> list[dict]:
    shape = shape or shape_of(rows)

    def number(*size: int) -> torch.Tensor:
        return (draw.tensor(*size, dtype=torch.float64) / 50).to(dtype)

    weights = [[number(DIM, DIM), number(DIM)] for _ in range(shape.n_stages)]
    xs = [[torch.cat([number(ROWS, DIM), torch.full((ROWS, 1), float(micro), dtype=dtype)], 1)
           for micro in range(shape.n_micro)] for _ in range(steps)]
    ys = [[number(ROWS, DIM) for _ in range(shape.n_micro)] for _ in range(steps)]
    return [{"schedule": [[tuple(step) for step in row] for row in rows], "shape": tuple(shape), "weights": weights,
             "xs": xs, "ys": ys} for _ in range(shape.n_ranks)]


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    turned = written("F0 F1 F2 B2 B0 B1", "F0 F1 F2 B0 B2 B1")  # messages wanted in another order than they are sent
    schedules = {
        "1 rank, 2 stages": right_orders.interleaved(1, 2, 3),
        "GPipe on 3": right_orders.gpipe(3, 4),
        "1F1B on 4": right_orders.one_f_one_b(4, 6),
        "1F1B turned round on 2": turned,
        "interleaved on 2": right_orders.interleaved(2, 2, 4),
        "zero bubble on 3": right_orders.zero_bubble(3, 5),
    }
    if grading:
        schedules["1 rank"] = right_orders.one_f_one_b(1, 3)
        schedules["1F1B on 5"] = right_orders.one_f_one_b(5, 7)
    cases = [Case(name, tuple(_inputs(draw, rows))) for name, rows in schedules.items()]
    cases.append(Case("float32, 1F1B on 2", tuple(_inputs(draw, right_orders.one_f_one_b(2, 5), dtype=torch.float32))))
    cases.append(group_case(lambda n: _inputs(draw, right_orders.one_f_one_b(n, 4), steps=1), "1F1B"))
    bad = written("F0 B0 F1 B1", "F0 F1 B0 B1")
    return [*cases, Case("a schedule that cannot run", tuple(_inputs(draw, bad, steps=1)))]


def _shape(case: Case, rank: int) -> Shape:
    return Shape(*case.inputs[rank]["shape"])


def _rows(case: Case, rank: int) -> oracle.Rows:
    return oracle.as_rows(case.inputs[rank]["schedule"])


def _plain(case: Case, rank: int, scale: Callable[[Shape], float] = lambda shape: 1.0, weight_factor: float = 1.0,
           last_only: bool = False, last_step: bool = False) -> dict[str, Any]:
    """One process with all stages: losses, and the gradients of the stages of this rank, added over steps.

    Wrong ways: gradients times scale(shape); weights' gradients times weight_factor; those of the last micro-batch only,
    or of the last step only.
    """
    inputs, shape = case.inputs[rank], _shape(case, rank)
    fault = oracle.fault_of(_rows(case, rank), shape)
    if fault:
        return {"ValueError": f"names {fault.step}"}
    stages = [[one.clone().requires_grad_() for one in both] for both in inputs["weights"]]
    every, losses = [one for both in stages for one in both], []
    for xs, ys in zip(inputs["xs"], inputs["ys"], strict=True):
        one_step = []
        if last_step:
            for one in every:
                one.grad = None
        for number, (x, y) in enumerate(zip(xs, ys, strict=True)):
            if last_only and number == len(xs) - 1:
                for one in every:
                    one.grad = None
            h = x[:, :-1]
            for weight, bias in stages:
                h = torch.tanh(h @ weight + bias)
            loss = squared_error(torch.cat([h, x[:, -1:]], 1), y)
            (loss / shape.n_micro * scale(shape)).backward()
            one_step.append(loss.detach())
        losses.append(one_step)
    mine = range(case.group_rank(rank), shape.n_stages, shape.n_ranks)
    return {"losses": losses if shape.n_stages - 1 in mine else [[] for _ in losses],
            "gradients": {f"{s}.inner.{name}": one.grad * weight_factor for s in mine
                          for name, one in zip(("weight", "bias"), stages[s], strict=True)}}


def _reading(case: Case, found: Any) -> Any:
    if "ValueError" not in found:
        return found
    fault = oracle.fault_of(_rows(case, 0), _shape(case, 0))
    named = fault is not None and str(fault.step) in found["ValueError"]
    return {"ValueError": f"names {fault.step}"} if named else found


def _runs(look: Look) -> bool:
    """The case's schedule can run."""
    return all("losses" in look.right[rank] for rank in look.working)


def _done(look: Look, rank: int) -> list[Step]:
    """What was done on this rank, in order, of all steps of training: from the marks of its stages."""
    kinds = _shape(look.case, rank).kinds
    marks = [s for s in look.evidence.trace.spans if s.rank == rank and s.name == DONE]
    found = []
    for one in sorted(marks, key=lambda s: s.start_s):
        kind = {"I": "I" if "I" in kinds else "B", "W": "W" if "W" in kinds else ""}.get(one.facts["kind"], "F")
        if kind:
            found.append(Step(kind, one.facts["micro"], one.facts["stage"]))
    return found


def _in_order(look: Look) -> tuple[bool, str]:
    if not _runs(look):
        return True, ""
    for rank in look.working:
        wanted = _rows(look.case, rank)[look.case.group_rank(rank)] * len(look.case.inputs[rank]["xs"])
        # the first stage's input needs no gradient: what happens there is seen by its weights only
        def seen(steps: list[Step]) -> list[Step]:
            return [step for step in steps if step.stage > 0 or step.kind in "FW"]

        found, wanted = seen(_done(look, rank)), seen(wanted)
        for number, (a, b) in enumerate(zip(found, wanted, strict=False)):
            if a != b:
                return False, f"rank {rank} did {a} where the schedule has {b} (number {number})"
        if len(found) != len(wanted):
            return False, f"rank {rank} did {len(found)} steps, the schedule has {len(wanted)}"
    return True, ""


def _let_go(look: Look) -> tuple[bool, str]:
    if not _runs(look):
        return True, ""
    for rank in look.working:
        allowed = oracle.peaks(_rows(look.case, rank))[look.case.group_rank(rank)]
        most = max((s.facts["count"] for s in look.evidence.trace.spans if s.rank == rank and s.name == ALIVE), default=0)
        if most > allowed:
            return False, f"rank {rank} kept {most} micro-batches' activations, the schedule has {allowed} in flight"
    return True, ""


def _sent(look: Look, rank: int) -> float:
    """A message for each step whose result another rank needs."""
    inputs, shape = look.case.inputs[rank], _shape(look.case, rank)
    if not _runs(look) or shape.n_ranks == 1:
        return 0.0
    row = _rows(look.case, rank)[look.case.group_rank(rank)]
    forward = sum(step.kind == "F" and step.stage < shape.n_stages - 1 for step in row)
    backward = sum(step.kind in "BI" and step.stage > 0 for step in row)
    return float((forward + backward) * inputs["xs"][0][0].nbytes * len(inputs["xs"]))


def _gradients_as(**other: Any) -> Callable[[Look], bool]:
    """Losses are right, and gradients are wrong as a wrong way gives them, on every rank."""

    def matches(look: Look) -> bool:
        if look.evidence.ending != RETURNED or not _runs(look):
            return False
        wrong_way = {rank: _plain(look.case, rank, **other) for rank in look.working}
        pairs = [(found, expected, wrong_way[rank]) for rank, found, expected in look.pairs()]
        return all(same(f["losses"], e["losses"]) and same(f["gradients"], w["gradients"]) for f, e, w in pairs) and any(
            not same(f["gradients"], e["gradients"]) for f, e, _ in pairs)

    return matches


def _split(matches: Callable[[Look], bool]) -> Callable[[Look], bool]:
    return lambda look: "W" in _shape(look.case, 0).kinds and matches(look)


def _losses(factor: Callable[[Shape], float]) -> Callable[[Look], bool]:
    def matches(look: Look) -> bool:
        if look.evidence.ending != RETURNED or not _runs(look):
            return False
        last = [rank for rank in look.working if look.right[rank]["losses"][0]]
        wanted = {rank: [[loss * factor(_shape(look.case, rank)) for loss in one] for one in look.right[rank]["losses"]]
                  for rank in last}
        return all(same(look.outputs[rank]["losses"], wanted[rank]) and not same(
            look.outputs[rank]["losses"], look.right[rank]["losses"]) for rank in last)

    return matches


def _loss_elsewhere(look: Look) -> bool:
    return look.evidence.ending == RETURNED and _runs(look) and any(
        not same(found["losses"], expected["losses"]) for _, found, expected in look.pairs() if not expected["losses"][0])


def _shuffled(look: Look) -> bool:
    """The case in which messages are wanted in another order than they are sent, and only there."""
    return look.case.name.startswith(("1F1B turned", "interleaved")) and (
        look.evidence.ending == DEADLOCKED or look.evidence.ending == RETURNED)


EXERCISE = Exercise(
    title="One executor for all schedules",
    parameters=("stages", "schedule", "shape", "loss_fn", "like", "group"),
    make_cases=_cases,
    oracle=each_rank(_plain),
    tolerance=TOLERANCE,
    points={"values": 4, "technique": 4},
    technique=Technique(
        reading=_reading,
        demands=(
        only_calls("send", "recv", hint="Activations and gradients go from stage to stage by send and recv (isend, irecv); "
                                        "no collective is needed."),
        Demand("another order", "steps in the schedule's order",
               "Losses and gradients are right, but the steps were not done in the order of the schedule.", _in_order),
        Demand("kept too long", "activations let go at B or W",
               "Right, but activations of more micro-batches are kept than the schedule has in flight: after a backward "
               "nothing may hold the micro-batch's output, input or graph.", _let_go),
        bytes_sent(_sent, "one message for each stage's neighbour",
                   "More was sent than one activation forward and one gradient backward for each micro-batch between two "
                   "stages on different ranks."),
        results_waited(),
        sends_waited(),
    ),
        symptoms=(
        group_ignored(),
        Symptom("runs what cannot run", "A schedule that cannot run is to be refused: __init__ raises "
                                        "ValueError(str(fault)) with validate_schedule's fault.",
                lambda look: not _runs(look)),
        forgotten_send(),
        raised("itself", "Two stages of one rank: hand the tensor over within the rank, no message.", "message to itself"),
        deadlocked("", "Ranks wait for each other. Sends must not block (isend, and wait for them later), a receive should "
                       "come right before the step that needs it, with the tag of the message that it wants.", "deadlock"),
        unwaited(),
        Symptom("losses divided", "The losses that come back are divided by n_micro: divide what backward starts from, and "
                                  "return each micro-batch's own loss.", _losses(lambda shape: 1 / shape.n_micro)),
        Symptom("losses elsewhere", "Only the rank of the last stage returns losses; others return [].", _loss_elsewhere),
        Symptom("sum for mean", "Gradients are n_micro times too large: they are to be those of the losses' mean, so each "
                                "micro-batch's loss counts 1/n_micro.", _gradients_as(scale=lambda shape: shape.n_micro)),
        Symptom("last micro-batch only", "Gradients are those of the last micro-batch alone: they add up over "
                                         "micro-batches.",
                _gradients_as(last_only=True)),
        Symptom("last step only", "Gradients of earlier calls of step() are gone: they add to .grad.",
                _gradients_as(last_step=True)),
        Symptom("weights doubled", "With the backward in two pieces the weights' gradients are twice too large: I computes "
                                   "them already (a whole backward), and W once more.",
                _split(_gradients_as(weight_factor=2.0))),
        raised("does not require grad", "A received activation needs requires_grad_() before its stage computes, or no "
               "gradient comes back for the stage before.", "no gradient for the input"),
        raised("NoneType", "A received activation needs requires_grad_() before its stage computes, or its gradient is "
                           "None.",
               "no gradient of the input"),
        Symptom("messages mixed up", "With messages wanted in another order than they were sent the wrong ones are taken. "
                                     "Give each message a tag of its own, from kind, micro-batch and stage.",
                _shuffled),
    ),
    ),
)
