"""Wrong steps of data parallelism."""

import torch.distributed as dist

from tests.mutants import mutant


def _step(model, loss, optimizer, group, reduce=True):
    loss.backward()
    for p in model.parameters():
        if reduce and p.grad is not None:
            dist.all_reduce(p.grad, group=group)
    optimizer.step()
    total = loss.detach().clone()
    dist.all_reduce(total, group=group)
    return total


def _loss(model, loss_fn, x, y, batch_size):
    return loss_fn(model(x), y).sum() / batch_size


@mutant("shards weighed alike")
def mean_of_means(model, loss_fn, x, y, batch_size, optimizer, group):
    optimizer.zero_grad()
    mean = loss_fn(model(x), y).sum() / max(1, len(x))
    return _step(model, mean / dist.get_world_size(group), optimizer, group)


@mutant("sum for mean")
def sum_of_means(model, loss_fn, x, y, batch_size, optimizer, group):
    optimizer.zero_grad()
    return _step(model, loss_fn(model(x), y).sum() / max(1, len(x)), optimizer, group)


@mutant("divided by n too")
def divides_again(model, loss_fn, x, y, batch_size, optimizer, group):
    optimizer.zero_grad()
    return _step(model, _loss(model, loss_fn, x, y, batch_size) / dist.get_world_size(group), optimizer, group)


@mutant("gradients not reduced")
def alone(model, loss_fn, x, y, batch_size, optimizer, group):
    optimizer.zero_grad()
    return _step(model, _loss(model, loss_fn, x, y, batch_size), optimizer, group, reduce=False)


@mutant("gradients pile up")
def never_zeroes(model, loss_fn, x, y, batch_size, optimizer, group):
    return _step(model, _loss(model, loss_fn, x, y, batch_size), optimizer, group)


@mutant("own loss returned")
def returns_its_own_loss(model, loss_fn, x, y, batch_size, optimizer, group):
    optimizer.zero_grad()
    loss = _loss(model, loss_fn, x, y, batch_size)
    _step(model, loss, optimizer, group)
    return loss.detach()


@mutant("not a number")
def mean_of_nothing(model, loss_fn, x, y, batch_size, optimizer, group):
    optimizer.zero_grad()
    return _step(model, loss_fn(model(x), y).mean() * len(x) / batch_size, optimizer, group)


@mutant("no gradient")
def reduces_none(model, loss_fn, x, y, batch_size, optimizer, group):
    optimizer.zero_grad()
    loss = _loss(model, loss_fn, x, y, batch_size)
    loss.backward()
    for p in model.parameters():
        dist.all_reduce(p.grad.detach(), group=group)
    optimizer.step()
    total = loss.detach().clone()
    dist.all_reduce(total, group=group)
    return total


@mutant("reduced twice")
def reduces_parameters_too(model, loss_fn, x, y, batch_size, optimizer, group):
    optimizer.zero_grad()
    total = _step(model, _loss(model, loss_fn, x, y, batch_size), optimizer, group)
    for p in model.parameters():
        dist.all_reduce(p.data, group=group)
        p.data /= dist.get_world_size(group)
    return total


@mutant("group ignored")
def sums_over_the_world(model, loss_fn, x, y, batch_size, optimizer, group):
    optimizer.zero_grad()
    return _step(model, _loss(model, loss_fn, x, y, batch_size), optimizer, None)


@mutant("library call")
def gathers(model, loss_fn, x, y, batch_size, optimizer, group):
    optimizer.zero_grad()
    loss = _loss(model, loss_fn, x, y, batch_size)
    loss.backward()
    for p in model.parameters():
        if p.grad is not None:
            rows = [p.grad.clone() for _ in range(dist.get_world_size(group))]
            dist.all_gather(rows, p.grad, group=group)
            p.grad = sum(rows)
    optimizer.step()
    total = loss.detach().clone()
    dist.all_reduce(total, group=group)
    return total
