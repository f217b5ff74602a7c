"""Wrong ring reduce-scatters."""

import torch
import torch.distributed as dist

from grader.exercises.references import change, mistake

CHANGES = (
    change("own row", "x_NC[(r - 1) % n]", "x_NC[r]", "step - 2", "step - 1", "return partial_C", "return x_NC[r]"),
    change("row of the next rank", "x_NC[(r - 1) % n]", "x_NC[r]", "step - 2", "step - 1"),
    change("row of the rank before", "x_NC[(r - 1) % n]", "x_NC[(r - 2) % n]", "step - 2", "step - 3"),
    change("whole sum returned", "return partial_C", "return ring_all_gather(partial_C, group)"),
    change("mean for sum", "return partial_C", "return partial_C / n"),
    change("input changed", "received_C.add_(x_NC[(r - step - 2) % n])", "x_NC[(r - step - 2) % n].add_(received_C)"),
    change("one step too many", "range(n - 1)", "range(n)"),
    change("partial sums not passed on", "isend(partial_C", "isend(x_NC[(r - step - 1) % n]"),
    change("own partial added", "step - 2) % n])", "step - 2) % n] + partial_C)"),
    change("nothing added", ".add_(x_NC[(r - step - 2) % n])", ""),
    change("far too many bytes", "x_NC[(r - 1) % n]", "x_NC", "x_NC[(r - step - 2) % n]", "x_NC",
           "return partial_C", "return partial_C[r]"),
    change("past the neighbours", "isend(partial_C, group=group, group_dst=(r + 1) % n)",
           "isend(x_NC[(r + step + 1) % n], group=group, group_dst=(r + step + 1) % n)",
           "group_src=(r - 1) % n", "group_src=(r - step - 1) % n", "x_NC[(r - 1) % n]", "x_NC[r]",
           "x_NC[(r - step - 2) % n]", "partial_C"),
    change("everyone waits", "sending = dist.isend(partial_C, group=group, group_dst=(r + 1) % n)", "pass",
           "sending.wait()", "dist.send(partial_C, group=group, group_dst=(r + 1) % n)"),
    change("missing wait", "dist.recv", "dist.irecv", "empty_like", "zeros_like"),
    change("too few steps", "range(n - 1)", "range(n - 2)"),
    change("wrong way round", "group_dst=(r + 1) % n", "group_dst=(r - 1) % n",
           "group_src=(r - 1) % n", "group_src=(r + 1) % n"),
    change("wait forgotten", "sending = ", "", "        sending.wait()\n", ""),
    change("another type sent", "x_NC[(r - 1) % n]", "x_NC[(r - 1) % n].bfloat16()", "return partial_C",
           "return partial_C.to(x_NC.dtype)"),
    change("widened", "partial_C = x_NC[(r - 1) % n]", "work_NC = x_NC.float() if x_NC.itemsize < 4 else x_NC\n"
           "    partial_C = work_NC[(r - 1) % n]", "add_(x_NC[", "add_(work_NC[", "return partial_C",
           "return partial_C.to(x_NC.dtype)"),
    change("waited late", "    for step", "    received_C, sends = torch.empty_like(partial_C), []\n    for step",
           "        received_C = torch.empty_like(partial_C)\n", "", "sending.wait()", "sends.append(sending)",
           "    return partial_C",
           "    for sending in sends:\n        sending.wait()\n    return partial_C"),
    change("out of step", "step - 2", "step - 1", "x_NC[(r - 1) % n]", "x_NC[(r + 1) % n]"),
    change("another shape", "return partial_C", "return partial_C[None]"),
)


@mistake("library call")
def calls_the_library(x_NC, group):
    out_C = torch.empty_like(x_NC[0])
    dist.reduce_scatter(out_C, list(x_NC), group=group)
    return out_C

EQUIVALENT = {
    "partial_C = received_C.add_(x_NC[(r - step - 2) % n]) | (r - step - 2) % n → r - step - 2":
        'r − step − 2 is never below −n, where Python counts from the end.',
    "partial_C = x_NC[(r - 1) % n] | (r - 1) % n → r - 1": "For rank 0 this is row −1, to Python the last one.",
}
