"""Wrong ways to sum the gradient of a weight on two stages."""

import torch
import torch.distributed as dist

from grader.exercises.references import change, mistake

SEND, RECEIVE = "dist.isend(weight.grad, group_dst=other, group=group)", "dist.recv(theirs_VD, group_src=other, group=group)"
ADD, LEAVE = "weight.grad += theirs_VD", "if p == 1 or r not in (0, p - 1):\n        return"
EXCHANGE = f"work = {SEND}\n    {RECEIVE}\n    work.wait()\n    {ADD}"

CHANGES = (
    change("mean for sum", ADD, "weight.grad = (weight.grad + theirs_VD) / 2"),
    change("swapped", ADD, "weight.grad = theirs_VD"),
    change("weights summed", "weight.grad", "weight.data"),
    change("not reduced", ADD, f"if r == 0:\n        {ADD}"),
    change("both do the same", f"work = {SEND}", SEND.replace("isend", "send"), "work.wait()", "pass"),
    change("both do the same", f"work = {SEND}", "pass", "work.wait()", SEND.replace("isend", "send")),
    change("doubled alone", LEAVE, """if r not in (0, p - 1):
        return
    if p == 1:
        weight.grad += weight.grad
        return"""),
    change("group ignored", "(group)", "()", "group=group", "group=None", "p == 1 or", "weight is None or p == 1 or"),
    change("too many bytes", "work.wait()", f"work.wait()\n    work = {SEND}\n    {RECEIVE}\n    work.wait()"),
    change("missing wait", "dist.recv", "dist.irecv", "empty_like", "zeros_like"),
    change("middle stages", LEAVE, "if p == 1:\n        return"),
    change("a new tensor", ADD, "weight.grad = weight.grad + theirs_VD"),
    change("weights sent", SEND, "dist.isend(weight.detach(), group_dst=other, group=group)"),
    change("ends wait", EXCHANGE, "dist.all_reduce(weight.grad, group=group)"),
    change("changed before it was sent", EXCHANGE,
           "\n        ".join(["if r:", RECEIVE, ADD, SEND.replace("isend", "send")]) + "\n    "
           + "\n        ".join(["else:", SEND.replace("isend", "send"), RECEIVE, ADD])),
)


@mistake("others take part")
def everyone_reduces(weight, group):
    gradient = torch.zeros(7, 3, dtype=torch.float64) if weight is None else weight.grad
    dist.all_reduce(gradient, group=group)
