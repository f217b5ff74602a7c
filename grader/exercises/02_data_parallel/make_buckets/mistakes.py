"""Wrong buckets."""

from grader.exercises.references import change

CHANGES = (
    change("forward order", "reversed(range(len(sizes_bytes)))", "range(len(sizes_bytes))"),
    change("reversed within", "return buckets", "return [sorted(bucket) for bucket in buckets]"),
    change("overfull", "sizes_bytes[index] > room", "room <= 0"),
    change("last bucket lost", "return buckets", "return buckets[:-1]"),
    change("empty bucket", "= []", "= [[]]", "room = 0", "room = bucket_bytes"),
    change("too early", "> room", ">= room"),
    change("one each", "not buckets or sizes_bytes[index] > room", "True"),
    change("cut from the first", "reversed(range(len(sizes_bytes)))", "range(len(sizes_bytes))",
           "return buckets", "return [bucket[::-1] for bucket in buckets[::-1]]"),
    change("joins the large one", "        if not buckets", "        if sizes_bytes[index] > bucket_bytes:\n"
           "            buckets.append([index])\n            continue\n        if not buckets"),
    change("first not counted", "room -= sizes_bytes[index]", "room -= sizes_bytes[index] if len(buckets[-1]) > 1 else 0"),
    change("sizes returned", "append(index)", "append(sizes_bytes[index])"),
    change("an index twice", "append(index)", "append(sizes_bytes.index(sizes_bytes[index]))"),
    change("out of order", "    return buckets", "    for small in [b for b in buckets if len(b) == 1][:-1]:\n"
           "        buckets.remove(small)\n        buckets.append(small)\n    return buckets"),
    change("input changed", "return buckets", "sizes_bytes.clear()\n    return buckets"),
    change("none", "room = 0", "room = sizes_bytes[0]"),
)

EQUIVALENT = {
    'room = 0 | 0 → 1':
        'The first parameter opens a bucket whatever the room.',
    "room = 0 | 0 → (-1)": "The first parameter opens a bucket whatever the room.",
}
