"""Wrong flat shards."""

from grader.exercises.references import change

CHANGES = (
    change("whole kept alive", ".clone()", ""),
    change("not padded", "flat_Z.view(n, len(flat_Z) // n)", "flat.tensor_split(n)"),
    change("too few", "flat_Z.view(n, len(flat_Z) // n)[rank]",
           "F.pad(part := flat.chunk(n)[rank], (0, len(flat_Z) // n - len(part)))"),
    change("tail lost", "F.pad(flat, (0, -len(flat) % n))", "flat[:len(flat) // n * n]"),
    change("each by itself", "return flat_Z.view(n, len(flat_Z) // n)[rank].clone()",
           "flat = [p.detach().flatten() for p in parameters]\n"
           "    return torch.cat([F.pad(p, (0, -len(p) % n)).chunk(n)[rank] for p in flat])"),
    change("each by itself", "torch.cat([p.detach().flatten() for p in parameters])",
           "torch.cat([F.pad(p.detach().flatten(), (0, -p.numel() % n)) for p in parameters])"),
    change("padded in front", "(0, -len(flat) % n)", "(-len(flat) % n, 0)"),
    change("not zeros", "(0, -len(flat) % n)", "(0, -len(flat) % n), value=1.0"),
    change("other dtype", "clone()", "float()"),
    change("one too many", "-len(flat) % n", "n - len(flat) % n"),
    change("turned over", "p.detach().flatten()", "p.detach().t().flatten()"),
    change("other order", "in parameters", "in parameters[::-1]"),
    change("none for the last", ".clone()", ".clone()[:int(rank < len(flat))]"),
    change("padded after the cut", "flat_Z.view(n, len(flat_Z) // n)[rank]", "F.pad(flat.tensor_split(n)[rank], "
           "(0, len(flat_Z) // n - len(flat.tensor_split(n)[rank])))"),
    change("shared memory", "flat = torch.cat([p.detach().flatten() for p in parameters])",
           "parts = [p.detach().flatten() for p in parameters]\n    flat = torch.cat(parts) if len(parts) > 1 else parts[0]",
           "return flat_Z", "return flat if n == 1 else flat_Z"),
    change("has a history", ".detach()", ""),
    change("dealt like cards", "flat_Z.view(n, len(flat_Z) // n)[rank]", "flat_Z[rank::n]"),
    change("only in groups", "(group)", "()"),
    change("communicates", "return flat_Z", "dist.broadcast(flat_Z, group=group, group_src=0)\n    return flat_Z"),
)
