"""Wrong ways to scatter."""

import torch
import torch.distributed as dist

from tests.mutants import change, mutant

CHANGES = (
    change("more than the rows", "empty_like(x_NC[0])", "empty_like(x_NC)", "send(x_NC[peer]", "send(x_NC",
           "return row_C", "return row_C[dist.get_rank(group)]"),
    change("gather instead", "row_C = torch.empty_like(x_NC[0])", "row_C = x_NC[dist.get_rank(group)]",
           "dist.send(x_NC[peer], group=group, group_dst=peer)", "dist.recv(x_NC[peer], group=group, group_src=peer)",
           "dist.recv(row_C, group=group, group_src=root)", "dist.send(row_C, group=group, group_dst=root)"),
    change("row of another rank", "x_NC[peer]", "x_NC[peer - (peer > root)]", "x_NC[root]", "x_NC[-1]"),
    change("same row for all", "x_NC[peer]", "x_NC[0]", "x_NC[root]", "x_NC[0]"),
    change("own row", "return row_C", "return x_NC[dist.get_rank(group)]"),
    change("root is always 0", "!= root", "!= 0", "group_src=root", "group_src=0", "x_NC[root]", "x_NC[0]"),
    change("group ignored", "dist.get_rank(group)", "dist.get_rank()"),
    change("columns", "x_NC[peer]", "x_NC[:, peer].contiguous()", "x_NC[0]", "x_NC[:, 0]", "x_NC[root]", "x_NC[:, root]"),
    change("another shape", "x_NC[peer]", "x_NC[peer:peer + 1]", "x_NC[0]", "x_NC[:1]", "x_NC[root]", "x_NC[root:root + 1]"),
    change("row squeezed to a number", "x_NC[peer]", "x_NC[peer:peer + 1]", "x_NC[0]", "x_NC[:1]",
           "return row_C", "return row_C.squeeze()", "x_NC[root]", "x_NC[root:root + 1].squeeze()"),
    change("size differs", "x_NC[0]", "x_NC"),
)

EQUIVALENT = {
    "row_C = torch.empty_like(x_NC[0]) | 0 → (-1)": "All rows have one shape.",
    "row_C = torch.empty_like(x_NC[0]) | 0 → 1": "All rows have one shape, and who receives is not alone.",
}


@mutant("library call")
def calls_the_library(x_NC, root, group):
    row_C = torch.empty_like(x_NC[0])
    rows = list(x_NC) if dist.get_rank(group) == root else None
    dist.scatter(row_C, rows, group=group, group_src=root)
    return row_C
