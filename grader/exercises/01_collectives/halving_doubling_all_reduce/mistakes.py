"""Wrong all-reduces by halving and doubling."""

from grader.exercises.references import change

_BEGIN = "n, r = dist.get_world_size(group), dist.get_rank(group)"
_WHOLE = ("(lower, upper) if r < peer else (upper, lower)", "sums, sums.clone()",
          "swaps.append((peer, kept, given))", "pass")

CHANGES = (
    change("library call", _BEGIN, "dist.all_reduce(x, group=group)\n    return x"),
    change("whole tensors", *_WHOLE),
    change("too many messages", _BEGIN, "return ring_all_reduce(x, group)"),
    change("no doubling", "reversed(swaps)", "[]"),
    change("a piece returned", "reversed(swaps)", "[]", "return sums", "return piece"),
    change("wrong half", " if r < peer else (upper, lower)", ""),
    change("wrong half", " if r < peer", " if r % 2 == 0"),
    change("pieces out of place", "sending = dist.isend(kept",
           "received = torch.empty_like(piece)\n        sending = dist.isend(piece", "recv(given", "recv(received",
           "sending.wait()\n    return sums",
           "sending.wait()\n        piece = torch.cat([piece, received])\n    return piece"),
    change("one exchange only", "reversed(range(int(math.log2(n))))", "range(min(n - 1, 1))", *_WHOLE),
    change("one exchange only", "reversed(range(int(math.log2(n))))", "[*reversed(range(int(math.log2(n))))][:1]", *_WHOLE),
    change("input returned", "return sums", "return x"),
    change("mean for sum", "return sums", "return sums / n"),
    change("group ignored", _BEGIN, "group, n, r = dist.group.WORLD, dist.get_world_size(group), dist.get_rank()"),
    change("second phase adds", "dist.recv(given", "received = torch.empty_like(given)\n        dist.recv(received",
           "sending.wait()\n    return", "sending.wait()\n        given += received\n    return"),
    change("second phase forwards", "reversed(swaps)", "swaps"),
    change("an exchange is missing", "reversed(range(int(math.log2(n))))", "reversed(range(1, int(math.log2(n))))"),
    change("kept half sent", "isend(given", "isend(kept"),
    change("nothing added", "kept += received", "kept.copy_(received)"),
    change("halves exchanged on the way back", "for peer, kept, given", "for peer, given, kept"),
    change("receive from the wrong rank", "r ^ 2**k", "(r + 2**k) % n"),
    change("swaps of an earlier call", "reversed(swaps)",
           "reversed(vars(halving_doubling_all_reduce).setdefault((n, x.shape, x.dtype), swaps))"),
    change("written over", "sums = x.clone()", "places = vars(halving_doubling_all_reduce).setdefault('places', {})\n"
           "    sums = places.setdefault((x.shape, x.dtype), torch.empty_like(x)).copy_(x)"),
    change("dtype differs", "torch.empty_like(kept)", "torch.empty(kept.shape)"),
)

EQUIVALENT = {
    'kept, given = (lower, upper) if r < peer else (upper, lower) | r < peer → r <= peer':
        'A rank is never its own peer.',
    "sums = x.clone() | x.clone() → x": "x may be overwritten, as by dist.all_reduce.",
    "kept, given = (lower, upper) if r < peer else (upper, lower) | r < peer → not (r < peer)":
        "Which half a rank keeps changes no result and no message's size.",
}
