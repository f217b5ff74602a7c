"""Wrong ways to broadcast from one rank."""

import torch.distributed as dist

from grader.exercises.references import change, mistake

CHANGES = (
    change("root is always 0", "!= root", "!= 0", "group_src=root", "group_src=0"),
    change("message to itself", "if peer != root", "if True"),
    change("group ignored", "group_src=root", "src=root", "group_dst=peer", "dst=peer"),
    change("receive without send", "range(dist.get_world_size(group))", "range(min(2, dist.get_world_size(group)))"),
    change("own x returned", "dist.recv(x,", "dist.recv(torch.empty_like(x),"),
    change("wait forgotten", "dist.send", "dist.isend"),
    change("nothing returned", "return x", "return"),
    change("dtype differs", "dist.recv(x, group=group, group_src=root)\n        return x",
           "x = torch.empty(x.shape)\n        dist.recv(x, group=group, group_src=root)\n        return x"),
)


@mistake("library call")
def calls_the_library(x, root, group):
    dist.broadcast(x, group=group, group_src=root)
    return x


@mistake("others send too")
def passes_it_on_in_a_chain(x, root, group):
    n, r = dist.get_world_size(group), dist.get_rank(group)
    if r != root:
        dist.recv(x, group=group, group_src=(r - 1) % n)
    if (r + 1) % n != root:
        dist.send(x, group=group, group_dst=(r + 1) % n)
    return x
