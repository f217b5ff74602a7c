"""Wrong ways to gather."""

import torch
import torch.distributed as dist

from tests.mutants import change, mutant

CHANGES = (
    change("root is always 0", "!= root", "!= 0", "group_dst=root", "group_dst=0", "out_NC[root]", "out_NC[0]"),
    change("root's row missing", "new_empty", "new_zeros", "out_NC[root] = x_C", "pass"),
    change("rows out of order", "out_NC[root]", "out_NC[0]", "recv(out_NC[peer]", "recv(out_NC[peer + (peer < root)]"),
    change("one buffer", "x_C.new_empty(n, *x_C.shape)", "[torch.empty_like(x_C)] * n",
           "return out_NC", "return torch.stack(out_NC)"),
    change("summed", "return out_NC", "return out_NC.sum(0)"),
    change("result not only on root", "return None", "return x_C"),
    change("missing wait", "dist.recv", "dist.irecv"),
    change("more than the rows", "dist.send(x_C,", "dist.send(torch.cat([x_C, x_C]),",
           "dist.recv(out_NC[peer], group=group, group_src=peer)",
           "dist.recv(twice := torch.cat([x_C, x_C]), group=group, group_src=peer)\n"
           "            out_NC[peer] = twice[:len(x_C)]"),
    change("columns", "return out_NC", "return out_NC.T"),
    change("rows lost", "new_empty", "new_zeros", "recv(out_NC[peer]", "recv(out_NC[peer].clone()"),
    change("digits lost", "x_C.new_empty(n, *x_C.shape)", "torch.empty(n, *x_C.shape)", "recv(out_NC[peer],",
           "recv(row_C := torch.empty_like(x_C),", "group_src=peer)\n",
           "group_src=peer)\n            out_NC[peer] = row_C\n", "return out_NC", "return out_NC.to(x_C.dtype)"),
    change("list returned", "return out_NC", "return list(out_NC)"),
)


@mutant("library call")
def calls_the_library(x_C, root, group):
    is_root = dist.get_rank(group) == root
    rows = [torch.empty_like(x_C) for _ in range(dist.get_world_size(group))] if is_root else None
    dist.gather(x_C, rows, group=group, group_dst=root)
    return torch.stack(rows) if is_root else None
