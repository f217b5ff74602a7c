"""How MeshPasses must be done, and how it can fail."""

import functools
from itertools import pairwise

import torch

from grader.calling.going_through import DX, DY, X, Y
from grader.calling.meshes import PASS, make_model
from grader.evidence.evidence import DEADLOCKED, RETURNED
from grader.exercises.technique.going_through import Rows, not_its_micro_batches, numbers_right, passes_are
from grader.exercises.technique.meshes import line_in, messages, numbers_left, only_along
from grader.exercises.technique.rank_by_rank import on_each_rank, spans_if_any
from grader.judging.demands import bytes_sent, results_waited, sends_waited
from grader.judging.exercise import Case, Demand, Look, Symptom, Technique
from grader.judging.needs import each_way, needs
from grader.judging.symptoms import deadlocked, forgotten_send, raised, unwaited
from utils.costs.formulas import bytes_sent_per_rank
from utils.models.mesh_stage import layers_of_stage
from utils.models.tiny import next_byte_loss

NUMBER_BYTES = 8
ALL_REDUCES = 4  # of a block, forward and backward together


def _place(look: Look, rank: int, axis: str) -> tuple[int, int]:
    """(where the rank stands, how many there are)."""
    line = line_in(look, rank, axis)
    return line.index(rank), len(line)


def _rows(look: Look, rank: int) -> int:
    """Of one micro-batch."""
    inputs = look.case.inputs[rank]
    return len(inputs["tokens"]) // _place(look, rank, "dp")[1] // inputs["n_micro"]


def _micro_bytes(look: Look, rank: int) -> int:
    inputs = look.case.inputs[rank]
    return _rows(look, rank) * inputs["model"]["length"] * inputs["model"]["dim"] * NUMBER_BYTES


def _not_its_passes(look: Look, rank: int) -> str:
    inputs = look.case.inputs[rank]
    done = [mark.facts["rows"] for mark in spans_if_any(look, rank, PASS)]
    wanted = [_rows(look, rank)] * inputs["n_micro"]
    rows = ", ".join(map(str, sorted(set(done))))
    return "" if done == wanted else (f"rank {rank} made {len(done)} passes of {rows} rows; "
                                      f"wanted {len(wanted)} of {_rows(look, rank)}")


@functools.lru_cache(maxsize=32)
def _in_one_process(case: Case) -> list[Rows]:
    """Of each stage, all rows of the batch."""
    inputs = case.inputs[0]
    model, n_stages = make_model(inputs["model"]), inputs["sizes"]["pp"]
    outputs: list[torch.Tensor] = []
    for stage in range(n_stages - 1):
        end = layers_of_stage(len(model.blocks), n_stages, stage)[-1]
        model.blocks[end].register_forward_hook(lambda _, args, output: outputs.append(output))
    outputs.append(model(inputs["tokens"].T))
    for output in outputs:
        output.retain_grad()
    next_byte_loss(outputs[-1].transpose(0, 1), inputs["targets"]).mean().backward()
    borders = [numbers_right(inputs["tokens"].double()), *(numbers_right(y.transpose(0, 1)) for y in outputs)]
    gradients = [None, *(numbers_right(y.grad.transpose(0, 1)) for y in outputs)]
    return [{X: x, Y: y, DY: dy} | ({DX: dx} if dx else {})
            for (x, y), (dx, dy) in zip(pairwise(borders), pairwise(gradients), strict=True)]


def _plain(case: Case, rank: int) -> list[Rows]:
    """What goes through this rank's stage in one process, in the only step."""
    stage = next(line.index(rank) for line in case.inputs[rank]["lines"]["pp"] if rank in line)
    return [_in_one_process(case)[stage]]


def _not_its_messages(look: Look, rank: int) -> str:
    """To the next stage each output, to the one before each gradient."""
    stage, n_stages = _place(look, rank, "pp")
    inputs, line = look.case.inputs[rank], line_in(look, rank, "pp")
    wanted = inputs["n_micro"]
    for other in (stage - 1, stage + 1):
        if 0 <= other < n_stages:
            sent = [c for c in messages(look, rank) if c.op == "send" and c.peer == line[other]
                    and c.bytes == _micro_bytes(look, rank)]
            if len(sent) != wanted:
                return f"rank {rank} sent {len(sent)} micro-batches to rank {line[other]}, wanted {wanted}"
    return ""


def _sent(look: Look, rank: int) -> float:
    """Micro-batches both ways, and the sums of the stage's own layers along tp."""
    (stage, n_stages), t, micro = _place(look, rank, "pp"), _place(look, rank, "tp")[1], _micro_bytes(look, rank)
    sums = _blocks(look, rank) * ALL_REDUCES * bytes_sent_per_rank("all_reduce", micro, t)
    return look.case.inputs[rank]["n_micro"] * (micro * ((stage > 0) + (stage < n_stages - 1)) + sums)


def _needed(look: Look, rank: int) -> float:
    """Each way: micro-batches along pp, sums along tp."""
    (stage, n_stages), t, micro = _place(look, rank, "pp"), _place(look, rank, "tp")[1], _micro_bytes(look, rank)
    both = (stage > 0) + (stage < n_stages - 1) + _blocks(look, rank) * ALL_REDUCES * (t > 1)
    return look.case.inputs[rank]["n_micro"] * micro * both


def _blocks(look: Look, rank: int) -> int:
    return len({name.split(".")[1] for name in look.right[rank]["gradients"] if name.startswith("blocks.")})


def _loss_right(look: Look) -> bool:
    return look.evidence.ending == RETURNED and all(
        look.same(found["loss"], right["loss"]) for _, found, right in look.pairs())


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
        Demand("whole batch", "each rank computes its share, in n_micro passes", on_each_rank(_not_its_passes), gate=True),
        passes_are(not_its_micro_batches(_plain), gate=True),
        Demand("other messages", "each output forward once, each gradient back once", on_each_rank(_not_its_messages)),
        only_along(("pp", "tp")),
        bytes_sent(_sent, "each output and each gradient once"),
        results_waited(),
        sends_waited(),
        numbers_left(),
    ),
    symptoms=(
        raised("NoneType", "no gradient of the input"),
        raised("second time", "backward twice"),
        raised("grad can be implicitly created", "backward from an output"),
        raised("does not require grad", "no graph"),
        deadlocked("size differs", "another size"),
        forgotten_send(),
        Symptom("gradient not sent", _nothing_sent_back),
        deadlocked("", "messages do not fit"),
        unwaited(),
    ),
    fallbacks=(
        Symptom("wrong gradients", _loss_right),
        Symptom("wrong losses", lambda look: look.evidence.ending == RETURNED and not _loss_right(look)),
    ),
)
