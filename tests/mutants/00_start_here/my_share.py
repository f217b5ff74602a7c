"""Wrong ways to cut a list."""

from tests.mutants import change

SHARE = "items[start:start + k + (1 if r < extra else 0)]"
CHANGES = (
    change("input changed", SHARE, "[items.pop(start) for _ in range(k + (1 if r < extra else 0))]"),
    change("everything", SHARE, "items"),
    change("remainder dropped", SHARE, "items[r * k:(r + 1) * k]"),
    change("rest to the last", SHARE, "items[r * k:] if r == n - 1 else items[r * k:(r + 1) * k]"),
    change("rounded up", SHARE, "items[r * k:(r + 1) * k]", "k, extra = divmod(len(items), n)", "k = -(-len(items) // n)",
           "+ min(r, extra)", ""),
    change("dealt like cards", SHARE, "items[r::n]"),
    change("extras elsewhere", SHARE, "items[len(items) * r // n:len(items) * (r + 1) // n]"),
    change("ignores the group", "(group)", "()"),
    change("communicates", "    k,", "    dist.broadcast(torch.tensor(len(items)), group=group, group_src=0)\n    k,"),
    change("later ranks larger", SHARE, "items[start:start + k + (r >= n - extra)]", "min(r, extra)",
           "max(0, r - n + extra)"),
    change("cut elsewhere", SHARE, "items[start:start + k + (0 if r else extra)]", "min(r, extra)", "(extra if r else 0)"),
    change("lost or doubled", " + (1 if r < extra else 0)", ""),
    change("looked up by value", SHARE, "[item for item in items if start <= items.index(item) < start + k + (r < extra)]"),
    change("list made a tensor", SHARE, "torch.tensor(items).tensor_split(n)[r].tolist()"),
    change("None for nothing", SHARE, f"{SHARE} or None"),
)
