"""Wrong ring all-gathers."""

import torch
import torch.distributed as dist

from grader.exercises.references import change, mistake

CHANGES = (
    change("own row again and again", "dist.isend(out_NC[(r - step) % n]", "dist.isend(x_C"),
    change("order of arrival", "out_NC[r]", "out_NC[0]", "out_NC[(r - step) % n]", "out_NC[step]",
           "out_NC[(r - step - 1) % n]", "out_NC[step + 1]"),
    change("one buffer", "x_C.new_empty(n, *x_C.shape)", "[torch.empty_like(x_C)] * n",
           "sending = dist.isend(out_NC[(r - step) % n]",
           "sent_C = out_NC[(r - step) % n].clone()\n        sending = dist.isend(sent_C",
           "return out_NC", "return torch.stack(out_NC)"),
    change("rows shifted by one", "out_NC[r]", "out_NC[(r + 1) % n]", "out_NC[(r - step) % n]",
           "out_NC[(r - step + 1) % n]", "out_NC[(r - step - 1) % n]", "out_NC[(r - step) % n]"),
    change("rows shifted by one", "out_NC[r]", "out_NC[(r - 1) % n]", "out_NC[(r - step - 1) % n]",
           "out_NC[(r - step - 2) % n]", "out_NC[(r - step) % n]", "out_NC[(r - step - 1) % n]"),
    change("too few steps", "range(n - 1)", "range(n - 2)", "new_empty", "new_zeros"),
    change("a row missing", "new_empty", "new_zeros", "out_NC[r] = x_C", "pass", "out_NC[(r - step) % n], group",
           "out_NC[(r - step) % n] if step else x_C, group"),
    change("whole tensors", "new_empty", "new_zeros", "isend(out_NC[(r - step) % n]", "isend(out_NC",
           "dist.recv(out_NC[(r - step - 1) % n]", "received_NC = torch.empty_like(out_NC)\n        dist.recv(received_NC",
           "sending.wait()", "sending.wait()\n        out_NC = out_NC.where(out_NC != 0, received_NC)"),
    change("past the neighbours", "isend(out_NC[(r - step) % n], group=group, group_dst=(r + 1) % n)",
           "isend(x_C, group=group, group_dst=(r + step + 1) % n)", "group_src=(r - 1) % n", "group_src=(r - step - 1) % n"),
    change("open ring", "group_dst=(r + 1) % n", "group_dst=r + 1"),
    change("everyone waits", "sending = dist.isend", "dist.send", "sending.wait()", "pass"),
    change("group ignored", "(group)", "()", "group=group, group_dst=", "dst=", "group=group, group_src=", "src="),
    change("written over", "out_NC = x_C.new_empty(n, *x_C.shape)",
           "places = vars(ring_all_gather).setdefault('places', {})\n"
           "    out_NC = places.setdefault((n, x_C.shape, x_C.dtype), x_C.new_empty(n, *x_C.shape))"),
    change("columns", "return out_NC", "return out_NC.T"),
    change("own row last", "return out_NC", "return out_NC.roll(-1 - r, 0)"),
    change("own row overwritten", "recv(out_NC[(r - step - 1) % n]", "recv(out_NC[(r - step) % n]"),
    change("another type sent", "x_C.new_empty(n, *x_C.shape)", "torch.empty(n, *x_C.shape)", "out_NC[r] = x_C",
           "x_C = x_C.float()\n    out_NC[r] = x_C"),
)

EQUIVALENT = {
    "sending = dist.isend(out_NC[(r - step) % n], group=group, group_dst=(r + 1) % n) | (r - step) % n → r - step":
        "r − step is never below −n, where Python counts from the end.",
    "dist.recv(out_NC[(r - step - 1) % n], group=group, group_src=(r - 1) % n) | (r - step - 1) % n → r - step - 1":
        "r − step − 1 is never below −n, where Python counts from the end.",
}


@mistake("library call")
def calls_the_library(x_C, group):
    rows = [torch.empty_like(x_C) for _ in range(dist.get_world_size(group))]
    dist.all_gather(rows, x_C, group=group)
    return torch.stack(rows)
