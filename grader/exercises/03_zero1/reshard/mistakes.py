"""Wrong ways to load a checkpoint on another number of ranks."""

from grader.exercises.references import change

PADDED, SHARD = "F.pad(whole, (0, -n_elements % n_ranks))", "padded.view(n_ranks, -1)[rank].clone()"
OLD_PADDING = "(len(saved) * len(saved[0][name]) - n_elements)"

CHANGES = (
    change("input changed", "return loaded", "saved[0].update(loaded)\n    return loaded"),
    change("padding kept", "[:n_elements]", "", PADDED, "F.pad(whole, (0, -len(whole) % n_ranks))"),
    change("padding kept", "[:n_elements]", "", PADDED, "F.pad(whole, (0, -len(whole) % n_ranks))",
           SHARD, f"{SHARD}[:-(-n_elements // n_ranks)]"),
    *(change("padding kept", "torch.cat([shards[name] for shards in saved])[:n_elements]",
             "torch.cat([*(shards[name] for shards in saved[:-1]), saved[-1][name][:"
             f"{kept}]])", PADDED, "F.pad(whole, (0, -len(whole) % n_ranks))")
      for kept in (f"len(saved[0][name]) - {OLD_PADDING}", f"max(len(saved[0][name]) - {OLD_PADDING}, 0)")),
    change("not padded", SHARD, "whole[rank * (len(padded) // n_ranks):][:len(padded) // n_ranks]"),
    change("balanced", SHARD, "whole.tensor_split(n_ranks)[rank]"),
    change("balanced and padded", SHARD, "F.pad((part := whole.tensor_split(n_ranks)[rank]), "
           "(0, len(padded) // n_ranks - len(part)))"),
    change("zeros in front", PADDED, "F.pad(whole, (-n_elements % n_ranks, 0))"),
    change("zeros lost", "[:n_elements]\n", "\n        whole = whole[:int(whole.nonzero().max()) + 1]\n",
           PADDED, "F.pad(whole, (0, -len(whole) % n_ranks))"),
    change("every n-th", SHARD, "padded[rank::n_ranks]"),
    change("ranks reversed", "for shards in saved]", "for shards in saved[::-1]]"),
    change("another type", SHARD, f"{SHARD}.float()"),
    change("too few pieces", SHARD, "whole.chunk(n_ranks)[rank]"),
    change("padding not zero", PADDED, "F.pad(whole, (0, -n_elements % n_ranks), value=1)"),
    change("other names", "in saved[0]:", "in ['momentum']:"),
)

EQUIVALENT = {
    "for name in saved[0]: | 0 → (-1)": "All ranks saved the same names.",
}
