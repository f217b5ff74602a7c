"""Wrong buckets."""

from tests.mutants import mutant


def _right(sizes_bytes, bucket_bytes):
    buckets, room = [], 0
    for index in reversed(range(len(sizes_bytes))):
        if not buckets or sizes_bytes[index] > room:
            buckets.append([])
            room = bucket_bytes
        buckets[-1].append(index)
        room -= sizes_bytes[index]
    return buckets


@mutant("forward order")
def from_the_first(sizes_bytes, bucket_bytes):
    last = len(sizes_bytes) - 1
    return [[last - index for index in bucket] for bucket in _right(sizes_bytes[::-1], bucket_bytes)]


@mutant("reversed within")
def sorts_each(sizes_bytes, bucket_bytes):
    return [sorted(bucket) for bucket in _right(sizes_bytes, bucket_bytes)]


@mutant("overfull")
def closes_too_late(sizes_bytes, bucket_bytes):
    buckets, current, held = [], [], 0
    for index in reversed(range(len(sizes_bytes))):
        current.append(index)
        held += sizes_bytes[index]
        if held >= bucket_bytes:
            buckets.append(current)
            current, held = [], 0
    return buckets + [current] * bool(current)


@mutant("last bucket lost")
def forgets_the_open_one(sizes_bytes, bucket_bytes):
    buckets, current, held = [], [], 0
    for index in reversed(range(len(sizes_bytes))):
        if current and held + sizes_bytes[index] > bucket_bytes:
            buckets.append(current)
            current, held = [], 0
        current.append(index)
        held += sizes_bytes[index]
    return buckets


@mutant("empty bucket")
def begins_with_an_empty_one(sizes_bytes, bucket_bytes):
    buckets, held = [[]], 0
    for index in reversed(range(len(sizes_bytes))):
        if held + sizes_bytes[index] > bucket_bytes:
            buckets.append([])
            held = 0
        buckets[-1].append(index)
        held += sizes_bytes[index]
    return buckets


@mutant("too early")
def never_quite_full(sizes_bytes, bucket_bytes):
    return _right(sizes_bytes, bucket_bytes - 1)


@mutant("one each")
def no_company(sizes_bytes, bucket_bytes):
    return [[index] for index in reversed(range(len(sizes_bytes)))]


@mutant("none")
def needs_one(sizes_bytes, bucket_bytes):
    sizes_bytes[0]
    return _right(sizes_bytes, bucket_bytes)
