"""Unbalanced partitions."""

from grader.exercises.references import change

LEAST = "totals.index(min(totals))"

CHANGES = (
    change("in turn", LEAST, "index % n_ranks"),
    change("in turn", LEAST, "index // -(-len(sizes) // n_ranks)"),
    *(change("in turn", "for index in sorted(range(len(sizes)), key=lambda index: -sizes[index]):",
             "for number, index in enumerate(sorted(range(len(sizes)), key=lambda index: -sizes[index])):", LEAST, owner)
      for owner in ("number % n_ranks", "min(number % (2 * n_ranks), 2 * n_ranks - 1 - number % (2 * n_ranks))")),
    change("equals reversed", "key=lambda index: -sizes[index])", "key=lambda index: sizes[index])[::-1]"),
    change("sizes as names", "return owners", "owner = {sizes[i]: owners[i] for i in sorted(range(len(sizes)), "
           "key=lambda i: -sizes[i])}\n    return [owner[size] for size in sizes]"),
    change("input changed", "totals, owners =", "given = list(sizes)\n    totals, owners =", "return owners",
           "sizes.sort()\n    return owners", "-sizes[index]", "-given[index]", "+= sizes[index]", "+= given[index]"),
    change("lists of tensors", "return owners", "return [[i for i in range(len(sizes)) if owners[i] == rank] "
           "for rank in range(n_ranks)]"),
    change("a run each", "return owners", "return sorted(owners)"),
    change("given order", "sorted(range(len(sizes)), key=lambda index: -sizes[index])", "range(len(sizes))"),
    change("smallest first", "-sizes[index]", "sizes[index]"),
    change("last of equals", LEAST, "max(rank for rank in range(n_ranks) if totals[rank] == min(totals))"),
    change("as dealt", "totals, owners =", "sizes = sorted(sizes, reverse=True)\n    totals, owners ="),
    change("empty ones to the first", "return owners",
           "return [owner if size else 0 for owner, size in zip(owners, sizes)]"),
    change("fewest tensors first", LEAST, "min(range(n_ranks), key=lambda rank: (totals[rank], done.count(rank)))",
           "totals, owners =", "done = []\n    totals, owners =", "totals[owners[index]] +=",
           "done.append(owners[index])\n        totals[owners[index]] +="),
)

EQUIVALENT = {
    "totals, owners = [0] * n_ranks, [0] * len(sizes) | 0 → (-1)": "Totals that begin alike compare alike.",
    "totals, owners = [0] * n_ranks, [0] * len(sizes) | 0 → 1": "Totals that begin alike compare alike.",
    "totals, owners = [0] * n_ranks, [0] * len(sizes) | 0 → (-1), again": "Every tensor gets its owner in the loop.",
    "totals, owners = [0] * n_ranks, [0] * len(sizes) | 0 → 1, again": "Every tensor gets its owner in the loop.",
}
