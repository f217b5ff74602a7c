"""Wrong ways to reduce along a tree."""

import torch
import torch.distributed as dist

from grader.exercises.references import change, mistake

CHANGES = (
    change("partial sums lost", "dist.send(total,", "dist.send(x,"),
    change("mean for sum", "return total if", "return total / n if"),
    change("input changed", "x.clone()", "x"),
    change("result elsewhere", "return total if place == 0 else None", "return total"),
    change("root is always 0", "n = dist.get_world_size(group)", "root, n = 0, dist.get_world_size(group)"),
    change("root is always 0", "place == 0", "dist.get_rank(group) == 0"),
    change("nothing added", "total += received", "pass"),
    change("places mixed up", "(place - have + root) % n", "place - have", "(place + have + root) % n", "place + have"),
    change("sent too early", "reversed(range(math.ceil(math.log2(n))))", "range(math.ceil(math.log2(n)))"),
    change("a round is missing", "math.ceil(math.log2(n))", "int(math.log2(n))"),
    change("a round is missing", "range(math.ceil(math.log2(n)))", "range(1, math.ceil(math.log2(n)))"),
    change("powers of two only", " and place + have < n", ""),
    change("parts lost or doubled", "total += received", "total += received + x"),
    change("another type sent", "x.clone(), torch.empty_like(x)", "x.double(), torch.empty_like(x, dtype=torch.float64)"),
)

EQUIVALENT = {
    "elif place < have and place + have < n: | place < have → place <= have":
        "A place that equals have sends, and never comes here.",
}


@mistake("too many rounds")
def the_root_receives_from_all(x, root, group):
    if dist.get_rank(group) != root:
        dist.send(x, group=group, group_dst=root)
        return None
    total, received = x.clone(), torch.empty_like(x)
    for peer in range(dist.get_world_size(group)):
        if peer != root:
            dist.recv(received, group=group, group_src=peer)
            total += received
    return total


@mistake("library call")
def calls_the_library(x, root, group):
    total = x.clone()
    dist.reduce(total, group=group, group_dst=root)
    return total if dist.get_rank(group) == root else None
