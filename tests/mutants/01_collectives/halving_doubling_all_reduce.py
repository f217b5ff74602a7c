"""Wrong all-reduces by halving and doubling."""

import math

import torch
import torch.distributed as dist

from tests.mutants import mutant


def _exchange(sent, received, peer, group):
    sending = dist.isend(sent, group=group, group_dst=peer)
    dist.recv(received, group=group, group_src=peer)
    sending.wait()


def _halve(sums, group, keeps_lower=lambda r, peer: r < peer):
    """In place. [(peer, kept, given)] of each exchange."""
    r, piece, swaps = dist.get_rank(group), sums, []
    for k in reversed(range(int(math.log2(dist.get_world_size(group))))):
        peer = r ^ 2**k
        lower, upper = piece.chunk(2)
        kept, given = (lower, upper) if keeps_lower(r, peer) else (upper, lower)
        received = torch.empty_like(kept)
        _exchange(given, received, peer, group)
        kept += received
        swaps.append((peer, kept, given))
        piece = kept
    return swaps


def _double(swaps, group):
    for peer, kept, given in reversed(swaps):
        _exchange(kept, given, peer, group)


@mutant("library call")
def calls_the_library(x, group):
    total = x.clone()
    dist.all_reduce(total, group=group)
    return total


@mutant("whole tensors")
def doubles_whole_tensors(x, group):
    total, received = x.clone(), torch.empty_like(x)
    for k in range(int(math.log2(dist.get_world_size(group)))):
        _exchange(total, received, dist.get_rank(group) ^ 2**k, group)
        total += received
    return total


@mutant("too many messages")
def goes_round_the_ring(x, group):
    n, r = dist.get_world_size(group), dist.get_rank(group)
    x_NC = x.clone().view(n, -1)
    received_C = torch.empty_like(x_NC[0])

    def pass_on(sent, received):
        sending = dist.isend(sent, group=group, group_dst=(r + 1) % n)
        dist.recv(received, group=group, group_src=(r - 1) % n)
        sending.wait()

    for step in range(n - 1):
        pass_on(x_NC[(r - step - 1) % n], received_C)
        x_NC[(r - step - 2) % n] += received_C
    for step in range(n - 1):
        pass_on(x_NC[(r - step) % n], x_NC[(r - step - 1) % n])
    return x_NC.view(-1)


@mutant("no doubling")
def halves_only(x, group):
    sums = x.clone()
    _halve(sums, group)
    return sums


@mutant("a piece returned")
def returns_its_piece(x, group):
    sums = x.clone()
    swaps = _halve(sums, group)
    return swaps[-1][1] if swaps else sums


@mutant("wrong half")
def both_keep_the_lower_half(x, group):
    sums = x.clone()
    _double(_halve(sums, group, keeps_lower=lambda r, peer: True), group)
    return sums


@mutant("pieces out of place")
def joins_the_pieces_in_its_own_order(x, group):
    swaps = _halve(x.clone(), group)
    piece = swaps[-1][1] if swaps else x
    for peer, _, _ in reversed(swaps):
        received = torch.empty_like(piece)
        _exchange(piece.contiguous(), received, peer, group)
        piece = torch.cat([piece, received])
    return piece


@mutant("one exchange only")
def exchanges_with_one_partner(x, group):
    sums = x.clone()
    if dist.get_world_size(group) > 1:
        received = torch.empty_like(x)
        _exchange(x, received, dist.get_rank(group) ^ 1, group)
        sums += received
    return sums


@mutant("mean for sum")
def divides_by_the_ranks(x, group):
    sums = x.clone()
    _double(_halve(sums, group), group)
    return sums / dist.get_world_size(group)


@mutant("group ignored")
def partner_in_the_world(x, group):
    total, received = x.clone(), torch.empty_like(x)
    for k in range(int(math.log2(dist.get_world_size(group)))):
        _exchange(total, received, dist.get_rank() ^ 2**k, dist.group.WORLD)
        total += received
    return total
