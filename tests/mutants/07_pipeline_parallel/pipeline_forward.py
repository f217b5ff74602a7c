"""Wrong ways to send micro-batches through the stages."""

import torch
import torch.distributed as dist

from tests.mutants import mutant


def _forward(stage, x_BD, n_micro, like_MD, group, order=1, at_once=True, keep=list, send=True, own_buffer=True):
    """A right one, and with its options a wrong one."""
    p, r = dist.get_world_size(group), dist.get_rank(group)
    buffer = torch.empty_like(like_MD)
    xs = list(x_BD.chunk(n_micro))[::order] if r == 0 else [
        torch.empty_like(like_MD) if own_buffer else buffer for _ in range(n_micro)]
    outputs = []
    for x_MD in xs:
        if r > 0:
            dist.recv(x_MD, group_src=r - 1, group=group)
        outputs.append(stage(x_MD).detach())
        if at_once and send and r < p - 1:
            dist.send(outputs[-1], group_dst=r + 1, group=group)
    if not at_once and r < p - 1:
        for output in outputs:
            dist.send(output, group_dst=r + 1, group=group)
    return torch.cat(keep(outputs)) if r == p - 1 else None


@mutant("sent too late")
def sends_in_the_end(stage, x_BD, n_micro, like_MD, group):
    return _forward(stage, x_BD, n_micro, like_MD, group, at_once=False)


@mutant("not in micro-batches")
def whole_batch(stage, x_BD, n_micro, like_MD, group):
    p, r = dist.get_world_size(group), dist.get_rank(group)
    if r > 0:
        x_BD = like_MD.new_empty(n_micro * len(like_MD), like_MD.shape[1])
        dist.recv(x_BD, group_src=r - 1, group=group)
    y_BO = stage(x_BD).detach()
    if r < p - 1:
        dist.send(y_BO, group_dst=r + 1, group=group)
    return y_BO if r == p - 1 else None


@mutant("wrong order")
def in_reverse(stage, x_BD, n_micro, like_MD, group):
    return _forward(stage, x_BD, n_micro, like_MD, group, order=-1)


@mutant("last micro-batch only")
def keeps_the_last(stage, x_BD, n_micro, like_MD, group):
    return _forward(stage, x_BD, n_micro, like_MD, group, keep=lambda outputs: outputs[-1:])


@mutant("nothing sent")
def forgets_to_send(stage, x_BD, n_micro, like_MD, group):
    return _forward(stage, x_BD, n_micro, like_MD, group, send=False)


@mutant("kept by others")
def everyone_returns(stage, x_BD, n_micro, like_MD, group):
    p, r = dist.get_world_size(group), dist.get_rank(group)
    xs = x_BD.chunk(n_micro) if r == 0 else [torch.empty_like(like_MD) for _ in range(n_micro)]
    outputs = []
    for x_MD in xs:
        if r > 0:
            dist.recv(x_MD, group_src=r - 1, group=group)
        outputs.append(stage(x_MD).detach())
        if r < p - 1:
            dist.send(outputs[-1], group_dst=r + 1, group=group)
    return torch.cat(outputs)


@mutant("group ignored")
def asks_the_world(stage, x_BD, n_micro, like_MD, group):
    return _forward(stage, x_BD, n_micro, like_MD, None)


@mutant("library call")
def broadcasts(stage, x_BD, n_micro, like_MD, group):
    result = _forward(stage, x_BD, n_micro, like_MD, group)
    dist.barrier(group)
    return result


@mutant("wait forgotten")
def drops_its_sends(stage, x_BD, n_micro, like_MD, group):
    p, r = dist.get_world_size(group), dist.get_rank(group)
    xs = x_BD.chunk(n_micro) if r == 0 else [torch.empty_like(like_MD) for _ in range(n_micro)]
    outputs = []
    for x_MD in xs:
        if r > 0:
            dist.recv(x_MD, group_src=r - 1, group=group)
        outputs.append(stage(x_MD).detach())
        if r < p - 1:
            dist.isend(outputs[-1], group_dst=r + 1, group=group)
    return torch.cat(outputs) if r == p - 1 else None


@mutant("nobody receives")
def last_sends_too(stage, x_BD, n_micro, like_MD, group):
    p, r = dist.get_world_size(group), dist.get_rank(group)
    result = _forward(stage, x_BD, n_micro, like_MD, group)
    if p > 1 and r == p - 1:
        dist.send(result, group_dst=0, group=group)
    return result


@mutant("x missing")
def everyone_cuts(stage, x_BD, n_micro, like_MD, group):
    x_BD.chunk(n_micro)
    return _forward(stage, x_BD, n_micro, like_MD, group)


@mutant("missing wait")
def computes_before_it_is_there(stage, x_BD, n_micro, like_MD, group):
    p, r = dist.get_world_size(group), dist.get_rank(group)
    xs = x_BD.chunk(n_micro) if r == 0 else [torch.zeros_like(like_MD) for _ in range(n_micro)]
    outputs, works = [], []
    for x_MD in xs:
        if r > 0:
            works.append(dist.irecv(x_MD, group_src=r - 1, group=group))
        outputs.append(stage(x_MD).detach())
        if r < p - 1:
            works.append(dist.isend(outputs[-1], group_dst=r + 1, group=group))
    if r == 0:
        for work in works:
            work.wait()
    return torch.cat(outputs) if r == p - 1 else None


@mutant("one buffer for all")
def one_buffer(stage, x_BD, n_micro, like_MD, group):
    p, r = dist.get_world_size(group), dist.get_rank(group)
    if r == 0:
        return _forward(stage, x_BD, n_micro, like_MD, group)
    x_MD, outputs = torch.empty_like(like_MD), []
    for _ in range(n_micro):
        dist.recv(x_MD, group_src=r - 1, group=group)
        outputs.append(x_MD)
        if r < p - 1:
            dist.send(stage(x_MD).detach(), group_dst=r + 1, group=group)
        else:
            y_MO = stage(x_MD).detach()
            outputs[-1] = y_MO if len(outputs) == 1 else outputs[0].copy_(y_MO)
    return torch.cat(outputs) if r == p - 1 else None
