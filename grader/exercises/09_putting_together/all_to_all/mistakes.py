"""Wrong all-to-alls."""

import torch
import torch.distributed as dist

from grader.exercises.references import change, mistake

BOTH = ("both = [dist.P2POp(dist.isend, x_NC[to], group=group, group_peer=to),\n                "
        "dist.P2POp(dist.irecv, out_NC[source], group=group, group_peer=source)]")
WAITED = "for work in dist.batch_isend_irecv(both):\n            work.wait()"

CHANGES = (
    change("own x returned", "return out_NC", "return x_NC"),
    change("same row to everyone", "isend, x_NC[to]", "isend, x_NC[r]"),
    change("order of arrival", "out_NC[r]", "out_NC[0]", "out_NC[source]", "out_NC[shift]"),
    change("own row missing", "empty_like", "zeros_like", "out_NC[r] = x_NC[r]", "pass"),
    change("message to itself", "range(1, n)", "range(n)"),
    change("a round is missing", "torch.empty_like(x_NC)", "x_NC.clone()", "range(1, n)", "range(1, min(2, n))"),
    change("more than the rows", "both = [", "received_NC = torch.empty_like(x_NC)\n        both = [",
           "isend, x_NC[to]", "isend, x_NC", "irecv, out_NC[source]", "irecv, received_NC",
           "work.wait()", "work.wait()\n        out_NC[source] = received_NC[r]"),
    change("everyone waits", BOTH, "dist.recv(out_NC[source], group=group, group_src=source)",
           WAITED, "dist.send(x_NC[to], group=group, group_dst=to)"),
    change("group ignored", "dist.get_rank(group)", "dist.get_rank()"),
    change("transposed here", "n, r = dist.get_world_size(group), dist.get_rank(group)", "return x_NC.T.contiguous()"),
    change("input overwritten", "torch.empty_like(x_NC)", "x_NC"),
    change("a round is missing", "torch.empty_like(x_NC)", "x_NC.clone()", "range(1, n)", "range(1, n - 1)"),
    change("powers of two only", "(r + shift) % n, (r - shift) % n", "r ^ shift, r ^ shift"),
    change("powers of two only", "torch.empty_like", "torch.zeros_like", "    for shift in range(1, n):  # in each round",
           "    for shift in range(1, n):\n        if r ^ shift >= n:\n            continue\n        # in each round",
           "(r + shift) % n, (r - shift) % n", "r ^ shift, r ^ shift"),
    change("out of step", "isend, x_NC[to]", "isend, x_NC[source]"),
    change("receive from the wrong rank", "(r - shift) % n", "(r + shift) % n"),
)


@mistake("library call")
def calls_the_library(x_NC, group):
    out_NC = torch.empty_like(x_NC)
    dist.all_to_all_single(out_NC, x_NC, group=group)
    return out_NC
