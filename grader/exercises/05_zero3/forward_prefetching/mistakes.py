"""Wrong forward passes with prefetching."""

from grader.exercises.references import change

CHANGES = (
    change("not prefetched", "number + 1 + depth", "number + 1"),
    change("too far ahead", "min(number + 1 + depth, len(shards))", "len(shards)"),
    change("never freed", "under_way.pop(0)", "under_way[number]"),
    change("newest first", "under_way.pop(0)", "under_way.pop()"),
    change("waited too early", "async_op=True", "async_op=False", "work.wait()", "pass"),
    change("row overwritten", "flat_Z = shards[started].new_empty(n * len(shards[started]))",
           "flat_Z = rows[started % len(rows)]", "n, under_way,",
           "rows = [shards[0].new_empty(dist.get_world_size(group) * len(shards[0])) for _ in range(max(1, depth))]\n"
           "    n, under_way,", "under_way.append(", "work.wait()\n            under_way.append("),
    change("missing wait", "work.wait()", "pass"),
    change("beyond the end", "min(number + 1 + depth, len(shards))", "number + 1 + depth"),
    change("last layers left out", "n, under_way,", "shards = shards[:-1]\n    n, under_way,"),
    change("too many bytes", "return x_BD",
           "for shard in shards:\n"
           "        dist.all_gather_single(shard.new_empty(n * len(shard)), shard, group=group)\n"
           "    return x_BD"),
    change("library call", "new_empty(n * len(shards[started]))",
           "new_zeros(n * len(shards[started]))\n"
           "            flat_Z.chunk(n)[dist.get_rank(group)].copy_(shards[started])",
           "all_gather_single(flat_Z, shards[started],", "all_reduce(flat_Z,"),
    change("group ignored", "(group)", "()", "group=group, ", ""),
)

EQUIVALENT = {
    "flat_Z = shards[started].new_empty(n * len(shards[started])) | started → started - 1": "All shards have one dtype.",
    "flat_Z = shards[started].new_empty(n * len(shards[started])) | started → started - 1, again":
        "All rows have one length, so that buffers can serve in turn.",
}
