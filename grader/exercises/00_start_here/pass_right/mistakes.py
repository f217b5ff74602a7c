"""Wrong ways to pass a tensor on."""

import torch
import torch.distributed as dist

from grader.exercises.references import change, mistake

ISEND = "work = dist.isend(x, group=group, group_dst=(r + 1) % n)"
SEND = "dist.send(x, group=group, group_dst=(r + 1) % n)"
RECEIVE = "dist.recv(received, group=group, group_src=(r - 1) % n)"
WAIT = "    work.wait()\n"
CHANGES = (
    change("everyone waits", ISEND, RECEIVE, f"    {RECEIVE}\n{WAIT}", f"    {SEND}\n"),
    change("everyone waits", ISEND, SEND, WAIT, ""),
    change("no neighbour", "    if n == 1:\n        return x\n", ""),
    change("passed left", "(r + 1)", "(r + n - 1)", "(r - 1)", "(r + 1)"),
    change("input returned", "return received", "return x"),
    change("input returned", "n == 1", "n <= 2"),
    change("written over", "received = torch.empty_like(x)", "places = vars(pass_right).setdefault('places', {})\n"
           "    received = places.setdefault((x.shape, x.dtype), torch.empty_like(x))"),
    change("group ignored", "(group)", "()", "group=group, group_", ""),
    change("wait forgotten", "work = ", "", WAIT, ""),
    change("missing wait", "torch.empty_like", "torch.zeros_like", ISEND, RECEIVE.replace("recv(", "irecv("),
           f"    {RECEIVE}\n{WAIT}", f"    {SEND}\n"),
    change("receive from the wrong rank", "(r - 1)", "(r + 1)"),
    change("sender returned", "    dist.recv", "    received = dist.recv"),
    change("no such rank", "(r + 1) % n", "r + 1", "(r - 1) % n", "r - 1"),
    change("open line", ISEND, f"work = None if r == n - 1 else {ISEND.removeprefix('work = ')}",
           RECEIVE, f"{RECEIVE} if r else received.copy_(x)", WAIT, "    work and work.wait()\n"),
    change("input overwritten", "torch.empty_like(x)", "x"),
    change("waited twice", WAIT, 2 * WAIT),
    change("dtype differs", "torch.empty_like(x)", "torch.empty(x.shape)"),
)


@mistake("library call")
def gathers_all(x, group):
    everything = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
    dist.all_gather(everything, x, group=group)
    return everything[dist.get_rank(group) - 1]


@mistake("too many messages")
def sends_twice(x, group):
    r, n = dist.get_rank(group), dist.get_world_size(group)
    received = x.clone()
    for half in range(2 if n > 1 else 0):
        part = slice(half, None, 2)
        incoming = torch.empty_like(x[part])
        work = dist.isend(x[part].contiguous(), group=group, group_dst=(r + 1) % n)
        dist.recv(incoming, group=group, group_src=(r - 1) % n)
        work.wait()
        received[part] = incoming
    return received
