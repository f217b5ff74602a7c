"""Wrong flat shards."""

from tests.mutants import change

CHANGES = (
    change("whole kept alive", ".clone()", ""),
    change("not padded", "row_P.chunk(n)", "row.tensor_split(n)"),
    change("tail lost", "F.pad(row, (0, -len(row) % n))", "row[:len(row) // n * n]"),
    change("each by itself", "return row_P.chunk(n)[rank].clone()",
           "flat = [p.detach().flatten() for p in parameters]\n"
           "    return torch.cat([F.pad(p, (0, -len(p) % n)).chunk(n)[rank] for p in flat])"),
    change("padded in front", "(0, -len(row) % n)", "(-len(row) % n, 0)"),
    change("dealt like cards", "row_P.chunk(n)[rank]", "row_P[rank::n]"),
    change("group ignored", "(group)", "()"),
    change("communicates", "return row_P", "dist.broadcast(row_P, group=group, group_src=0)\n    return row_P"),
)
