"""Half repairs of case_4."""

import torch
import torch.distributed as dist

from grader.exercises.references import change, half_repaired, mistake
from utils.models import hunted

WARM_UP, BROKEN = "warm_up = min(p - 1 - r, n_micro)", "warm_up = min(r, n_micro)"

CHANGES = (
    half_repaired("untouched"),
    half_repaired("kept too many", BROKEN, "warm_up = n_micro"),
    half_repaired("another order", BROKEN, "warm_up = 0"),
    half_repaired("no micro-batch left", BROKEN, "warm_up = p - 1 - r"),
    change("nothing kept", "passes.forward()\n            passes.backward()",
           "passes.backward()\n            passes.forward()"),
)


@mistake("passes not seen")
def passes_by_hand(steps, lr, group):
    r, p = dist.get_rank(group), dist.get_world_size(group)
    stage, notes = hunted.Stage(r, p), []
    optimizer = hunted.SGD(stage.parameters(), lr)
    for xs, ys in steps:
        optimizer.zero_grad()
        kept, loss = [], torch.zeros((), dtype=torch.float64) if r == p - 1 else None
        for x, y in zip(xs, ys, strict=True):
            if r:
                dist.recv(x, group=group, group_src=r - 1)
                x.requires_grad_()
            output = stage(x)
            if r < p - 1:
                dist.send(output.detach(), group=group, group_dst=r + 1)
            kept.append((x, output if r < p - 1 else stage.loss(output, y) / len(xs)))
        for x, output in kept:
            gradient = torch.empty_like(output)
            if r < p - 1:
                dist.recv(gradient, group=group, group_src=r + 1)
            else:
                loss += output.detach()
                gradient.fill_(1)
            output.backward(gradient)
            if r:
                dist.send(x.grad, group=group, group_dst=r - 1)
        optimizer.step()
        notes.append(hunted.note(stage, loss))
    return notes
