"""Wrong ways to shard a batch."""

from grader.exercises.references import change

SHARD = "return x_BD.tensor_split(dist.get_world_size(group))[dist.get_rank(group)]"
EQUAL = "n, r = dist.get_world_size(group), dist.get_rank(group)\n    b = len(x_BD) // n\n    return x_BD[r * b:(r + 1) * b]"
CHANGES = (
    change("everything", SHARD, "return x_BD"),
    change("rows dropped", SHARD, EQUAL),
    change("rest to the last", SHARD, f"{EQUAL} if r < n - 1 else x_BD[r * b:]"),
    change("rounded up", "tensor_split", "chunk"),
    change("dealt like cards", SHARD, "return x_BD[dist.get_rank(group)::dist.get_world_size(group)]"),
    *(change("columns", "dist.get_world_size(group)", f"dist.get_world_size(group), dim={dim}") for dim in (1, -1)),
    change("only in groups", "(group)", "()"),
    change("others have more", SHARD, "n, r = dist.get_world_size(group), dist.get_rank(group)\n"
           "    return x_BD[r * len(x_BD) // n:(r + 1) * len(x_BD) // n]"),
    change("others have more", SHARD, "n, r = dist.get_world_size(group), dist.get_rank(group)\n"
           "    return x_BD[-(-r * len(x_BD) // n):-(-(r + 1) * len(x_BD) // n)]"),
    change("others have more", SHARD, "n, r = dist.get_world_size(group), dist.get_rank(group)\n"
           "    return x_BD.flip(0).tensor_split(n)[n - 1 - r].flip(0)"),
    change("own size for all", SHARD, "n, r = dist.get_world_size(group), dist.get_rank(group)\n"
           "    b = len(x_BD) // n + (r < len(x_BD) % n)\n    return x_BD[r * b:(r + 1) * b]"),
    *(change("no columns", SHARD, f"{SHARD.replace('return', 'mine =')}\n    return mine if len(mine) else {empty}")
      for empty in ("torch.tensor([])", "x_BD.new_empty(0)", "x_BD.new_empty(0, x_BD.shape[1])",
                    "torch.empty(0, x_BD.shape[1])")),
    change("another type", SHARD, f"{SHARD}.float()"),
    change("no empty share", SHARD, f"{SHARD.replace('return', 'mine =')}\n    return mine if len(mine) else x_BD[-1:]"),
    change("input changed", SHARD, f"{SHARD.replace('return', 'mine =')}.clone()\n    x_BD.zero_()\n    return mine"),
    change("communicates", SHARD, f"dist.barrier(group)\n    {SHARD}"),
)
