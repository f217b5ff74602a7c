"""Wrong ways to shard gradients during the backward pass."""

import torch
import torch.distributed as dist
import torch.nn.functional as F

from tests.mutants import mutant


def _piece(gradient, group, divide=True, reverse=False):
    n = dist.get_world_size(group)
    flat = F.pad(gradient.flatten(), (0, -gradient.numel() % n))
    if reverse:
        flat = flat.view(n, -1).flip(0).flatten()
    shard = flat.new_empty(len(flat) // n)
    dist.reduce_scatter_single(shard, flat, group=group)
    return shard / n if divide else shard


def _hooked(model, hook):
    for p in model.parameters():
        if p.requires_grad:
            p.register_post_accumulate_grad_hook(hook)


def _adding(shards, piece, free=True):
    def hook(p):
        shard = piece(p)
        shards[p] = shards[p] + shard if p in shards else shard
        if free:
            p.grad = None

    return hook


@mutant("sum for mean")
def sums(model, group):
    shards = {}
    _hooked(model, _adding(shards, lambda p: _piece(p.grad, group, divide=False)))
    return shards


@mutant("last pass only")
def overwrites(model, group):
    shards = {}

    def hook(p):
        shards[p] = _piece(p.grad, group)
        p.grad = None

    _hooked(model, hook)
    return shards


@mutant("first pass twice")
def never_frees(model, group):
    shards = {}
    _hooked(model, _adding(shards, lambda p: _piece(p.grad, group), free=False))
    return shards


@mutant("gradients left")
def leaves_zeros(model, group):
    shards = {}

    def hook(p):
        _adding(shards, lambda p: _piece(p.grad, group), free=False)(p)
        p.grad.zero_()

    _hooked(model, hook)
    return shards


@mutant("full gradients")
def after_the_pass(model, group):
    shards, last = {}, next(p for p in model.parameters() if p.requires_grad)

    def hook(p):
        if p is last:
            for q in model.parameters():
                if q.grad is not None:
                    _adding(shards, lambda q: _piece(q.grad, group))(q)

    _hooked(model, hook)
    return shards


@mutant("another rank's shard")
def from_the_last(model, group):
    shards = {}
    _hooked(model, _adding(shards, lambda p: _piece(p.grad, group, reverse=True)))
    return shards


@mutant("not padded")
def forgets_to_pad(model, group):
    shards, n = {}, dist.get_world_size(group)

    def piece(p):
        shard = p.grad.new_empty(p.grad.numel() // n)
        dist.reduce_scatter_single(shard, p.grad.flatten(), group=group)
        return shard / n

    _hooked(model, _adding(shards, piece))
    return shards


@mutant("other dtype")
def in_float32(model, group):
    shards, n = {}, dist.get_world_size(group)

    def piece(p):
        flat = F.pad(p.grad.flatten(), (0, -p.grad.numel() % n))
        shard = torch.empty(len(flat) // n)
        dist.reduce_scatter_single(shard, flat, group=group)
        return shard / n

    _hooked(model, _adding(shards, piece))
    return shards


@mutant("first pass")
def adds_to_nothing(model, group):
    shards = {}

    def hook(p):
        shards[p] += _piece(p.grad, group)
        p.grad = None

    _hooked(model, hook)
    return shards


@mutant("nothing kept")
def on_tensors(model, group):
    def hook(gradient):
        _piece(gradient, group)

    for p in model.parameters():
        if p.requires_grad:
            p.register_hook(hook)
    return {}


@mutant("frozen hooked")
def hooks_everything(model, group):
    shards = {}
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(_adding(shards, lambda p: _piece(p.grad, group)))
    return shards


@mutant("too many bytes")
def reduces_twice(model, group):
    shards = {}

    def piece(p):
        _piece(p.grad, group)
        return _piece(p.grad, group)

    _hooked(model, _adding(shards, piece))
    return shards


@mutant("library call")
def all_reduces(model, group):
    shards, n, r = {}, dist.get_world_size(group), dist.get_rank(group)

    def piece(p):
        dist.all_reduce(p.grad, group=group)
        flat = F.pad(p.grad.flatten(), (0, -p.grad.numel() % n)) / n
        return flat.chunk(n)[r].clone()

    _hooked(model, _adding(shards, piece))
    return shards


@mutant("missing wait")
def does_not_wait(model, group):
    shards, n = {}, dist.get_world_size(group)

    def piece(p):
        flat = F.pad(p.grad.flatten(), (0, -p.grad.numel() % n)) / n
        shard = torch.zeros_like(flat[:len(flat) // n])
        dist.reduce_scatter_single(shard, flat, group=group, async_op=True)
        return shard

    _hooked(model, _adding(shards, piece))
    return shards
