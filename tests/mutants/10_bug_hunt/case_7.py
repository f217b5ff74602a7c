"""Half repairs of case_7."""

import torch
import torch.distributed as dist

from tests.mutants import change, half_repaired, mutant
from utils.models import hunted

ASK = "if ends is not None:"
REDUCE = "dist.all_reduce(stage.table.grad, group=ends)"
AFTER = "loss = passes.finish()"

CHANGES = (
    half_repaired("untouched"),
    change("mean for sum", REDUCE, f"{REDUCE}; stage.table.grad /= dist.get_world_size(ends)"),
    half_repaired("tables averaged", "optimizer.step()", """optimizer.step()
        if ends is not None:
            dist.all_reduce(stage.table.data, group=ends)
            stage.table.data /= dist.get_world_size(ends)"""),
    change("everything summed", REDUCE, "for q in stage.parameters(): dist.all_reduce(q.grad, group=ends)"),
    half_repaired("stages between", AFTER, f"{AFTER}\n        dist.all_reduce(stage.table.grad)"),
    change("swapped", REDUCE, "own = stage.table.grad.clone(); dist.all_reduce(stage.table.grad, group=ends)\n"
                              "            if p > 1: stage.table.grad -= own"),
    half_repaired("too early", "passes.backward()", "ends is not None and dist.all_reduce(stage.table.grad, group=ends)\n"
                               "        passes.backward()"),
    change("alone", REDUCE, """own, theirs = stage.table.grad, torch.empty_like(stage.table.grad)
            sending = dist.isend(own, p - 1 - r)
            dist.recv(theirs, p - 1 - r)
            sending.wait()
            own += theirs"""),
    change("too many bytes", REDUCE, f"{REDUCE}; {REDUCE}; stage.table.grad /= dist.get_world_size(ends)"),
)


@mutant("passes not seen")
def passes_by_hand(steps, lr):
    r, p = dist.get_rank(), dist.get_world_size()
    stage, notes, ends = hunted.TextStage(r, p), [], hunted.ends_group()
    optimizer = hunted.SGD(stage.parameters(), lr)
    for (tokens,), (targets,) in steps:
        optimizer.zero_grad()
        x = tokens
        if r:
            x = torch.empty(len(tokens), hunted.WIDTH, dtype=torch.float64)
            dist.recv(x, r - 1)
            x.requires_grad_()
        output = stage(x)
        if r < p - 1:
            dist.send(output.detach(), r + 1)
            gradient = torch.empty_like(output)
            dist.recv(gradient, r + 1)
            output.backward(gradient)
        else:
            output = stage.loss(output, targets)
            output.backward()
        if r:
            dist.send(x.grad, r - 1)
        if ends is not None:
            dist.all_reduce(stage.table.grad, group=ends)
        optimizer.step()
        notes.append(hunted.note(stage, output if r == p - 1 else None))
    return notes
