"""Wrong buckets."""

from tests.mutants import change

CHANGES = (
    change("forward order", "reversed(range(len(sizes_bytes)))", "range(len(sizes_bytes))"),
    change("reversed within", "return buckets", "return [sorted(bucket) for bucket in buckets]"),
    change("overfull", "sizes_bytes[index] > room", "room <= 0"),
    change("last bucket lost", "return buckets", "return buckets[:-1]"),
    change("empty bucket", "= []", "= [[]]", "room = 0", "room = bucket_bytes"),
    change("too early", "> room", ">= room"),
    change("one each", "not buckets or sizes_bytes[index] > room", "True"),
    change("none", "room = 0", "room = sizes_bytes[0]"),
)

EQUIVALENT = {
    'room = 0 | 0 → 1':
        'The first parameter opens a bucket whatever the room.',
}
