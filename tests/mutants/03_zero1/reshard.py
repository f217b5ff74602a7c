"""Wrong ways to load a checkpoint on another number of ranks."""

from tests.mutants import change

PADDED = "F.pad(whole[start:stop], (0, length - (stop - start)))"

CHANGES = (
    change("input changed", "return loaded", "saved[0].update(loaded)\n    return loaded"),
    change("padding kept", "length = ", "n_elements = len(saved) * len(saved[0]['momentum'])\n    length = "),
    change("not padded", PADDED, "whole[start:stop]"),
    change("old shard", "return loaded", "return saved[rank % len(saved)]"),
    change("everything", PADDED, "whole"),
    change("one tensor only", "in saved[0]:", "in ['momentum']:"),
)
