"""Wrong ways to broadcast along a tree."""

import torch.distributed as dist

from grader.exercises.references import change, mistake

CHANGES = (
    change("one sends all", "n = dist.get_world_size(group)", "return broadcast_naive(x, root, group)"),
    change("root is always 0", "n = dist.get_world_size(group)", "root, n = 0, dist.get_world_size(group)"),
    change("past the last rank", " and place + have < n", ""),
    change("a round is missing", "math.ceil(math.log2(n))", "int(math.log2(n))"),
    change("own x returned", "recv(x", "recv(torch.empty_like(x)"),
    change("group ignored", "group_dst=", "dst=", "group_src=", "src="),
    change("places mixed up", "(place + have + root) % n", "place + have", "(place - have + root) % n", "place - have"),
)


@mistake("library call")
def calls_the_library(x, root, group):
    dist.broadcast(x, group=group, group_src=root)
    return x


@mistake("too many rounds")
def passes_it_on_in_a_chain(x, root, group):
    n, r = dist.get_world_size(group), dist.get_rank(group)
    if r != root:
        dist.recv(x, group=group, group_src=(r - 1) % n)
    if (r + 1) % n != root:
        dist.send(x, group=group, group_dst=(r + 1) % n)
    return x
