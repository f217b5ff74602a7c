"""Wrong ways to load a checkpoint on another number of ranks."""

from tests.mutants import change

PADDED = "F.pad(whole[start:stop], (0, length - (stop - start)))"

CHANGES = (
    change("input changed", "return loaded", "saved[0].update(loaded)\n    return loaded"),
    change("padding kept", "length = ", "n_elements = len(saved) * len(saved[0]['momentum'])\n    length = "),
    change("not padded", PADDED, "whole[start:stop]"),
    change("old shard", "return loaded", "return saved[rank % len(saved)]"),
    change("balanced", PADDED, "whole.tensor_split(n_ranks)[rank]"),
    change("balanced and padded", PADDED, "F.pad((part := whole.tensor_split(n_ranks)[rank]), (0, length - len(part)))"),
    change("zeros in front", PADDED, "F.pad(whole, (-len(whole) % n_ranks, 0)).view(n_ranks, -1)[rank]"),
    change("zeros lost", "[:n_elements]\n", "\n        whole = whole[:int(whole.nonzero().max()) + 1]\n", PADDED,
           "F.pad(whole, (0, -len(whole) % n_ranks)).view(n_ranks, -1)[rank]"),
    change("every n-th", PADDED, "F.pad(whole[rank::n_ranks], (0, length - len(whole[rank::n_ranks])))"),
    change("ranks reversed", "for shards in saved]", "for shards in saved[::-1]]"),
    change("type not kept", PADDED, f"{PADDED}.float()"),
    change("too few pieces", PADDED, "whole.chunk(n_ranks)[rank]"),
    change("padding not zero", PADDED, "F.pad(whole[start:stop], (0, length - (stop - start)), value=1)"),
    change("everything", PADDED, "whole"),
    change("one tensor only", "in saved[0]:", "in ['momentum']:"),
)

EQUIVALENT = {
    "for name in saved[0]: | 0 → (-1)": "All ranks saved the same names.",
}
