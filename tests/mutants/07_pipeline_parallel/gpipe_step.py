"""Wrong GPipe steps."""

import torch
import torch.distributed as dist

from tests.mutants import mutant


def _step(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group, divide=None, hop=1.0, leaf=True, back=1, to=-1, local=False,
          forget=False, send_back=True, one_by_one=False, loss_of=sum, send=dist.send):
    """A right one, and with its options a wrong one."""
    p, r = dist.get_world_size(group), dist.get_rank(group)
    xs = list(x_BD.chunk(n_micro)) if r == 0 else [torch.empty_like(like_MD) for _ in range(n_micro)]
    ys = list(y_BO.chunk(n_micro)) if r == p - 1 else [None] * n_micro
    kept, losses = [], []

    def forward(x_MD, y_MO):
        if r > 0:
            dist.recv(x_MD, group_src=r - 1, group=group)
            x_MD.requires_grad_(leaf)
        out = stage(x_MD)
        if r < p - 1:
            send(out.detach(), group_dst=r + 1, group=group)
        kept.append((x_MD, y_MO, out))

    def backward(x_MD, y_MO, out):
        if forget:
            stage.zero_grad()
        if r == p - 1:
            loss = loss_fn(out, y_MO) / (n_micro if divide is None else divide(n_micro))
            loss.backward()
            losses.append(loss_fn(out, y_MO).detach() / n_micro)
        else:
            gradient = torch.empty_like(out)
            if send_back:
                dist.recv(gradient, group_src=r + 1, group=group)
            out.backward(torch.ones_like(out) if local else gradient)
        if r > 0 and send_back is True:
            send(x_MD.grad * hop, group_dst=(r + to) % p, group=group)

    for x_MD, y_MO in zip(xs, ys, strict=True):
        forward(x_MD, y_MO)
        if one_by_one:
            backward(*kept.pop())
    for each in kept[::back if r < p - 1 else 1]:
        backward(*each)
    return loss_of(losses) if r == p - 1 else None


@mutant("not divided")
def sums_losses(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group):
    return _step(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group, divide=lambda m: 1)


@mutant("divided twice")
def divides_at_every_stage(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group):
    loss = _step(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group)
    for parameter in stage.parameters():
        parameter.grad /= n_micro
    return loss


@mutant("last micro-batch only")
def clears_each_time(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group):
    return _step(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group, forget=True)


@mutant("micro-batches mixed up")
def some_in_reverse(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group):
    return _step(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group, back=-1)


@mutant("no gradient of the input")
def input_without_gradient(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group):
    return _step(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group, leaf=False)


@mutant("sent the wrong way")
def gradients_go_on(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group):
    return _step(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group, to=1)


@mutant("gradient not sent")
def keeps_gradients(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group):
    return _step(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group, send_back="never")


@mutant("local loss")
def a_loss_on_every_stage(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group):
    return _step(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group, local=True)


@mutant("not all forward first")
def one_after_the_other(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group):
    return _step(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group, one_by_one=True)


@mutant("group ignored")
def asks_the_world(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group):
    return _step(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, None)


@mutant("loss wrong")
def last_loss(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group):
    return _step(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group, loss_of=lambda losses: losses[-1])


@mutant("nothing backward")
def forward_only(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group):
    p, r = dist.get_world_size(group), dist.get_rank(group)
    losses = []
    for k in range(n_micro):
        x_MD = torch.empty_like(like_MD) if r else x_BD.chunk(n_micro)[k]
        if r > 0:
            dist.recv(x_MD, group_src=r - 1, group=group)
        out = stage(x_MD).detach()
        if r < p - 1:
            dist.send(out, group_dst=r + 1, group=group)
        else:
            losses.append(loss_fn(out, y_BO.chunk(n_micro)[k]) / n_micro)
    return sum(losses) if r == p - 1 else None


@mutant("wait forgotten")
def drops_its_sends(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group):
    return _step(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group, send=dist.isend)


@mutant("library call")
def all_reduces_the_loss(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group):
    loss = _step(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group)
    total = torch.zeros(()) if loss is None else loss.float()
    dist.all_reduce(total, group=group)
    return loss


@mutant("no graph")
def without_a_record(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group):
    with torch.no_grad():
        return _step(stage, x_BD, y_BO, loss_fn, n_micro, like_MD, group)
