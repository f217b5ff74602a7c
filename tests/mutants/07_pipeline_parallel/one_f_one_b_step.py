"""Wrong 1F1B steps."""

import torch
import torch.distributed as dist

from tests.mutants import mutant


def _step(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group, warm_up=None, oldest=0, divide=None, hop=None, leaf=True,
          blocking=False, send_back=True, wait=True, retain=False, forget=False, to=-1):
    """A right one, and with its options a wrong one."""
    p, r = dist.get_world_size(group), dist.get_rank(group)
    xs = list(x_BD.chunk(n_micro)) if r == 0 else [torch.empty_like(like_MD) for _ in range(n_micro)]
    ys = list(y_BO.chunk(n_micro)) if r == p - 1 else None
    kept, sends, losses = [], [], []

    def send(tensor, place):
        if blocking:
            dist.send(tensor, group_dst=place, group=group)
        else:
            work = dist.isend(tensor, group_dst=place, group=group)
            if wait:
                sends.append(work)

    def forward():
        x_MD = xs.pop(0)
        if r > 0:
            dist.recv(x_MD, group_src=r - 1, group=group)
            x_MD.requires_grad_(leaf)
        out = stage(x_MD)
        if r < p - 1:
            send(out.detach(), r + 1)
        kept.append((x_MD, out))

    def backward():
        if forget:
            stage.zero_grad()
        x_MD, out = kept.pop(oldest)
        if r == p - 1:
            loss = loss_fn(out, ys.pop(0)) / (divide(n_micro) if divide else n_micro)
            loss.backward(retain_graph=retain)
            losses.append(loss.detach())
        else:
            gradient = torch.empty_like(out)
            dist.recv(gradient, group_src=r + 1, group=group)
            out.backward(gradient, retain_graph=retain)
        if retain:
            stage.__dict__.setdefault("saved", []).append(out)
        if r > 0 and send_back:
            send(x_MD.grad if hop is None else x_MD.grad * hop(n_micro), (r + to) % p)

    first = min(p - 1 - r if warm_up is None else warm_up(p, r, n_micro), n_micro)
    for _ in range(first):
        forward()
    for _ in range(n_micro - first):
        forward()
        backward()
    for _ in range(first):
        backward()
    for work in sends:
        work.wait()
    return sum(losses) if r == p - 1 else None


@mutant("activations kept too long")
def gpipe_after_all(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group):
    return _step(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group, warm_up=lambda p, r, m: m)


@mutant("another order")
def no_warm_up(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group):
    return _step(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group, warm_up=lambda p, r, m: max(0, p - 2 - r))


@mutant("crossing sends")
def sends_that_block(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group):
    return _step(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group, blocking=True)


@mutant("stale activations")
def newest_first(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group):
    return _step(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group, oldest=-1)


@mutant("not divided")
def sums_losses(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group):
    loss = _step(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group, divide=lambda m: 1)
    return loss if loss is None else loss / n_micro


@mutant("divided twice")
def divides_what_travels(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group):
    return _step(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group, hop=lambda m: 1 / m)


@mutant("last micro-batch only")
def clears_each_time(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group):
    return _step(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group, forget=True)


@mutant("no gradient of the input")
def input_without_gradient(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group):
    return _step(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group, leaf=False)


@mutant("gradient not sent")
def keeps_gradients(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group):
    return _step(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group, send_back=False)


@mutant("sent the wrong way")
def gradients_go_on(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group):
    return _step(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group, to=1)


@mutant("group ignored")
def asks_the_world(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group):
    return _step(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, None)


@mutant("wait forgotten")
def drops_its_sends(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group):
    return _step(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group, wait=False)


@mutant("too many bytes")
def sends_gradients_to_itself_again(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group):
    loss = _step(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group)
    p, r = dist.get_world_size(group), dist.get_rank(group)
    work = dist.isend(torch.ones(3), group_dst=(r + 1) % p, group=group) if p > 1 else None
    if work:
        dist.recv(torch.ones(3), group_src=(r - 1) % p, group=group)
        work.wait()
    return loss
