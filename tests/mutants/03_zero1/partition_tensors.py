"""Unbalanced partitions."""

from tests.mutants import change

LEAST = "held.index(min(held))"

CHANGES = (
    change("in turn", LEAST, "index % n_ranks"),
    change("in blocks", LEAST, "index // -(-len(sizes) // n_ranks)"),
    change("given order", "sorted(range(len(sizes)), key=lambda index: -sizes[index])", "range(len(sizes))"),
    change("smallest first", "-sizes[index]", "sizes[index]"),
    change("last of equals", LEAST, "max(rank for rank in range(n_ranks) if held[rank] == min(held))"),
    change("as dealt", "held, owners =", "sizes = sorted(sizes, reverse=True)\n    held, owners ="),
    change("all to one", LEAST, "0"),
)
