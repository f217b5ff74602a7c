"""How MeshTrainer must be done, and how it can fail."""

import functools
from itertools import pairwise
from typing import Any

import torch

from grader.calling.going_through import DX, DY, X, Y
from grader.calling.meshes import PASS, make_model
from grader.evidence.evidence import DEADLOCKED, RETURNED
from grader.exercises.technique.going_through import Rows, not_its_micro_batches, numbers_right, passes_are
from grader.exercises.technique.meshes import line_in, messages, numbers_left, only_along
from grader.exercises.technique.rank_by_rank import on_each_rank, spans_if_any
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, results_waited, sends_waited
from grader.judging.exercise import Case, Demand, Look, Symptom, Technique
from grader.judging.needs import each_way, needs
from grader.judging.symptoms import deadlocked, forgotten_send, raised, unwaited, wrong_ranks
from utils.costs.formulas import bytes_sent_per_rank
from utils.models.mesh_stage import layers_of_stage
from utils.models.tiny import next_byte_loss

NUMBER_BYTES, A_FEW_NUMBERS = 8, 64  # loss and norm, in whatever way they are summed
CLIPPING = 1e-5  # in the second step's numbers the 1e-6 may be seen that the norm is added to, or not
ALL_REDUCES = 4  # of a block, forward and backward together


def _place(look: Look, rank: int, axis: str) -> tuple[int, int]:
    """(where the rank stands, how many there are)."""
    line = line_in(look, rank, axis)
    return line.index(rank), len(line)


def _rows(look: Look, rank: int) -> int:
    """Of one micro-batch."""
    inputs = look.case.inputs[rank]
    return len(inputs["tokens"][0]) // _place(look, rank, "dp")[1] // inputs["n_micro"]


def _micro_bytes(look: Look, rank: int) -> int:
    inputs = look.case.inputs[rank]
    return _rows(look, rank) * inputs["model"]["length"] * inputs["model"]["dim"] * NUMBER_BYTES


def _not_its_passes(look: Look, rank: int) -> str:
    inputs = look.case.inputs[rank]
    done = [mark.facts["rows"] for mark in spans_if_any(look, rank, PASS)]
    wanted = [_rows(look, rank)] * inputs["n_micro"] * len(inputs["tokens"])
    rows = ", ".join(map(str, sorted(set(done))))
    return "" if done == wanted else (f"rank {rank} made {len(done)} passes of {rows} rows; "
                                      f"wanted {len(wanted)} of {_rows(look, rank)}")


@functools.lru_cache(maxsize=32)
def _in_one_process(case: Case) -> list[list[Rows]]:
    """Of each step and stage, all rows of the batch."""
    inputs, found = case.inputs[0], []
    model, n_stages = make_model(inputs["model"]), inputs["sizes"]["pp"]
    ends = [layers_of_stage(len(model.blocks), n_stages, stage)[-1] for stage in range(n_stages - 1)]
    outputs: list[torch.Tensor] = []
    for end in ends:
        model.blocks[end].register_forward_hook(lambda _, args, output: outputs.append(output))
    for tokens, targets in zip(inputs["tokens"], inputs["targets"], strict=True):
        outputs.clear()
        model.zero_grad()
        outputs.append(model(tokens.T))
        loss = next_byte_loss(outputs[-1].transpose(0, 1), targets).mean()
        for output in outputs:
            output.retain_grad()
        loss.backward()
        borders = [numbers_right(tokens.double()), *(numbers_right(y.transpose(0, 1), CLIPPING) for y in outputs)]
        gradients = [None, *(numbers_right(y.grad.transpose(0, 1), CLIPPING) for y in outputs)]
        found.append([{X: x, Y: y, DY: dy} | ({DX: dx} if dx else {})
                      for (x, y), (dx, dy) in zip(pairwise(borders), pairwise(gradients), strict=True)])
        torch.nn.utils.clip_grad_norm_(model.parameters(), inputs["max_norm"])
        with torch.no_grad():
            for weight in model.parameters():
                weight -= inputs["lr"] * weight.grad
    return found


def _plain(case: Case, rank: int) -> list[Rows]:
    """What goes through this rank's stage in one process, in each step."""
    stage = next(line.index(rank) for line in case.inputs[rank]["lines"]["pp"] if rank in line)
    return [stages[stage] for stages in _in_one_process(case)]


def _not_its_messages(look: Look, rank: int) -> str:
    """To the next stage each output, to the one before each gradient."""
    stage, n_stages = _place(look, rank, "pp")
    inputs, line = look.case.inputs[rank], line_in(look, rank, "pp")
    wanted = inputs["n_micro"] * len(inputs["tokens"])
    for other in (stage - 1, stage + 1):
        if 0 <= other < n_stages:
            sent = [c for c in messages(look, rank) if c.op == "send" and c.peer == line[other]
                    and c.bytes == _micro_bytes(look, rank)]
            if len(sent) != wanted:
                return f"rank {rank} sent {len(sent)} micro-batches to rank {line[other]}, wanted {wanted}"
    return ""


def _sent(look: Look, rank: int) -> float:
    """In all steps: micro-batches both ways, the stage's own layers in tp, each gradient once in dp, the tied weight's."""
    inputs, right = look.case.inputs[rank], look.right[rank]["gradients"]
    (stage, n_stages), n, t = _place(look, rank, "pp"), _place(look, rank, "dp")[1], _place(look, rank, "tp")[1]
    gradients, micro = sum(g.nbytes for g in right.values()), _micro_bytes(look, rank)
    blocks = len({name.split(".")[1] for name in right if name.startswith("blocks.")})
    sent = inputs["n_micro"] * micro * ((stage > 0) + (stage < n_stages - 1))
    sent += inputs["n_micro"] * blocks * ALL_REDUCES * bytes_sent_per_rank("all_reduce", micro, t)
    sent += bytes_sent_per_rank("all_reduce", gradients, n)
    tied = next((g.nbytes for name, g in right.items() if name in ("embedding.weight", "head.weight")), 0)
    sent += tied if n_stages > 1 else 0
    return len(inputs["tokens"]) * (sent + A_FEW_NUMBERS * NUMBER_BYTES)


def _needed(look: Look, rank: int) -> float:
    """In all steps, each way: micro-batches along pp, sums along tp, gradients along dp."""
    inputs, right, micro = look.case.inputs[rank], look.right[rank]["gradients"], _micro_bytes(look, rank)
    (stage, n_stages), n, t = _place(look, rank, "pp"), _place(look, rank, "dp")[1], _place(look, rank, "tp")[1]
    blocks = len({name.split(".")[1] for name in right if name.startswith("blocks.")})
    a_micro = micro * ((stage > 0) + (stage < n_stages - 1) + blocks * ALL_REDUCES * (t > 1))
    return len(inputs["tokens"]) * (inputs["n_micro"] * a_micro + sum(g.nbytes for g in right.values()) * (n > 1))


def _first_losses_right(look: Look) -> bool:
    return all(same(found["losses"][0], right["losses"][0], 1e-9) for _, found, right in look.pairs())


def _nothing_updated(look: Look, rank: int, found: Any, right: Any) -> bool:
    return not found["gradients"]


def _first_step_right(look: Look, rank: int, found: Any, right: Any) -> bool:
    return same(found["losses"][0], right["losses"][0], 1e-9) and same(found["gradients"], right["gradients"], 1e-9)


def _nothing_sent_back(look: Look) -> bool:
    """Stages wait, and no micro-batch's gradient has been sent to the stage before."""
    sent = False
    for rank in look.working:
        stage, line = _place(look, rank, "pp")[0], line_in(look, rank, "pp")
        sent |= stage > 0 and any(c.op == "send" and c.peer == line[stage - 1] and c.bytes == _micro_bytes(look, rank)
                                  for c in messages(look, rank))
    return look.evidence.ending == DEADLOCKED and look.case.inputs[0]["sizes"]["pp"] > 1 and not sent


TECHNIQUE = Technique(
    demands=(
        needs(each_way(_needed)),
        Demand("whole batch", "each rank computes its share, in n_micro passes", "The numbers are right, but ranks compute "
               "more than they have to, or all at once: a replica takes its share of the batch, and the share goes through "
               "the stages in n_micro equal micro-batches, each of them once.", on_each_rank(_not_its_passes), gate=True),
        passes_are(not_its_micro_batches(_plain), gate=True),
        Demand("other messages", "each output forward once, each gradient back once", "The numbers are right, but the "
               "stages do not send micro-batches to their neighbours: each output goes to the next stage, and each input's "
               "gradient to the one before.", on_each_rank(_not_its_messages)),
        only_along(("dp", "pp", "tp"), "The numbers are right, but there are calls outside this rank's lines of the mesh: "
                                       "use the groups in mesh."),
        bytes_sent(_sent, "each gradient once along dp, and a few numbers", "Right, but more is sent: each gradient travels "
                   "along dp once a step, when all micro-batches have added to it; losses and norms are single numbers; the "
                   "tied weight's gradient goes once each way."),
        results_waited(),
        sends_waited(),
        numbers_left("The numbers are right, but a step asks a tensor for its numbers (.item(), float(), an if on a "
                     "tensor). In a simulation tensors have none: stay with tensors, as in (max_norm / (norm + "
                     "1e-6)).clamp(max=1.0)."),
    ),
    symptoms=(
        raised("'step'", "The method step(tokens_BT, targets_BT) is missing.", "no step"),
        raised("NoneType", "Something is None: a received x has a gradient only after x.requires_grad_(), before the stage "
               "is called; stage.tied_weight is None on stages between the ends.", "no gradient of the input"),
        raised("second time", "A micro-batch's backward ran twice: each output goes backward once.", "backward twice"),
        raised("grad can be implicitly created", "Backward from an output needs its gradient, which the next stage sends: "
               "y.backward(dy). Only the last stage begins with a single number, the loss.", "backward from an output"),
        raised("does not require grad", "Backward found no graph: keep the output itself for backward, and detach only what "
               "is sent.", "no graph"),
        deadlocked("size differs", "A message is received into a tensor of another size: stage.place_for(tokens) of the "
                   "micro-batch has the right one, and a gradient is as large as the output that it belongs to.",
                   "another size"),
        forgotten_send(),
        deadlocked("dtype differs", "The members of a line hand in tensors of different dtypes: torch.zeros(()) is float32, "
                   "whatever the model is, so where a stage has no loss of its own take new_zeros of what it has.",
                   "dtypes differ"),
        deadlocked("cycle of sends", "Two stages send to each other, and neither receives. Where both ends exchange "
                   "something, as the tied weight's gradients, start with isend, receive, and then wait.", "both send "
                                                                                                           "first"),
        deadlocked("cycle of receives", "Two stages wait for each other's message, and neither sends.", "both receive "
                                                                                                        "first"),
        Symptom("gradient not sent", "A stage waits for a gradient that never comes: after its backward pass every stage "
                                     "but the first sends x.grad to the stage before it.", _nothing_sent_back),
        deadlocked("", "Ranks wait for each other. Write down, for two neighbours in a line, what each of them sends and "
                       "receives in a step, in order: the lists must fit. All ranks of a line make the same collective "
                       "calls.",
                   "messages do not fit"),
        unwaited(),
        Symptom("no update", "The optimizer never steps: after clipping, optimizer.step() updates this rank's parameters.",
                wrong_ranks(_nothing_updated)),
    ),
    fallbacks=(
        Symptom("wrong update", "Losses and gradients of the first step are right, what comes after is not: one step of the "
                "optimizer for each batch, with the gradients cleared before it.", wrong_ranks(_first_step_right)),
        Symptom("wrong gradients", "The loss is right, gradients are not. Find the smallest mesh that fails: along pp look "
                "at which output meets which gradient, and at the tied weight; along dp at the mean; else at the clipping.",
                lambda look: look.evidence.ending == RETURNED and _first_losses_right(look)),
        Symptom("wrong losses", "Already the first loss is wrong: targets go with their tokens, in the same share and the "
                "same micro-batch, and the mean is over the whole batch.",
                lambda look: look.evidence.ending == RETURNED and not _first_losses_right(look)),
    ),
)
