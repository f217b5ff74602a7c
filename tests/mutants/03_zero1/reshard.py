"""Wrong ways to load a checkpoint on another number of ranks."""

from tests.mutants import change

PADDED, SHARD = "F.pad(whole, (0, -n_elements % n_ranks))", "padded.view(n_ranks, -1)[rank].clone()"

CHANGES = (
    change("input changed", "return loaded", "saved[0].update(loaded)\n    return loaded"),
    change("padding kept", "[:n_elements]", "", PADDED, "F.pad(whole, (0, -len(whole) % n_ranks))"),
    change("not padded", SHARD, "whole[rank * (len(padded) // n_ranks):][:len(padded) // n_ranks]"),
    change("old shard", "return loaded", "return saved[rank % len(saved)]"),
    change("balanced", SHARD, "whole.tensor_split(n_ranks)[rank]"),
    change("balanced and padded", SHARD, "F.pad((part := whole.tensor_split(n_ranks)[rank]), "
           "(0, len(padded) // n_ranks - len(part)))"),
    change("zeros in front", PADDED, "F.pad(whole, (-n_elements % n_ranks, 0))"),
    change("zeros lost", "[:n_elements]\n", "\n        whole = whole[:int(whole.nonzero().max()) + 1]\n",
           PADDED, "F.pad(whole, (0, -len(whole) % n_ranks))"),
    change("every n-th", SHARD, "padded[rank::n_ranks]"),
    change("ranks reversed", "for shards in saved]", "for shards in saved[::-1]]"),
    change("type not kept", SHARD, f"{SHARD}.float()"),
    change("too few pieces", SHARD, "whole.chunk(n_ranks)[rank]"),
    change("padding not zero", PADDED, "F.pad(whole, (0, -n_elements % n_ranks), value=1)"),
    change("everything", SHARD, "whole"),
    change("one tensor only", "in saved[0]:", "in ['momentum']:"),
)

EQUIVALENT = {
    "for name in saved[0]: | 0 → (-1)": "All ranks saved the same names.",
}
