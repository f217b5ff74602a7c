"""Wrong ways to reduce during the backward pass."""

import torch.distributed as dist

from tests.mutants import mutant


def _with(model, hook):
    for p in model.parameters():
        if p.requires_grad:
            p.register_post_accumulate_grad_hook(hook)


def _finisher(started, group, divide=True, clear=True):
    def finish():
        for p, work in started:
            work.wait()
            if divide:
                p.grad /= dist.get_world_size(group)
        if clear:
            started.clear()

    return finish


def _starter(started, group, op=dist.ReduceOp.SUM):
    return lambda p: started.append((p, dist.all_reduce(p.grad, op, group=group, async_op=True)))


@mutant("sum for mean")
def sums(model, group):
    started = []
    _with(model, _starter(started, group))
    return _finisher(started, group, divide=False)


@mutant("divided twice")
def divides_the_average(model, group):
    started = []
    _with(model, _starter(started, group, dist.ReduceOp.AVG))
    return _finisher(started, group)


@mutant("blocking call")
def blocks(model, group):
    _with(model, lambda p: dist.all_reduce(p.grad, dist.ReduceOp.AVG, group=group))
    return lambda: None


@mutant("not overlapped")
def after_backward(model, group):
    def finish():
        started = []
        for p in model.parameters():
            if p.grad is not None:
                _starter(started, group)(p)
        _finisher(started, group)()

    return finish


@mutant("waited too early")
def waits_in_the_hook(model, group):
    def hook(p):
        dist.all_reduce(p.grad, group=group, async_op=True).wait()
        p.grad /= dist.get_world_size(group)

    _with(model, hook)
    return lambda: None


@mutant("missing wait")
def never_waits(model, group):
    def hook(p):
        p.grad /= dist.get_world_size(group)
        dist.all_reduce(p.grad, group=group, async_op=True)

    _with(model, hook)
    return lambda: None


@mutant("reduced twice")
def by_name(model, group):
    started = []
    for _, p in model.named_parameters(remove_duplicate=False):
        if p.requires_grad:
            p.register_post_accumulate_grad_hook(_starter(started, group, dist.ReduceOp.AVG))
    return _finisher(started, group, divide=False)


@mutant("second step wrong")
def never_forgets(model, group):
    started = []
    _with(model, _starter(started, group))
    return _finisher(started, group, clear=False)


@mutant("frozen hooked")
def hooks_everything(model, group):
    started = []
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(_starter(started, group))
    return _finisher(started, group)


@mutant("too early a hook")
def tensor_hook(model, group):
    started = []
    for p in model.parameters():
        if p.requires_grad:
            p.register_hook(lambda grad, p=p: started.append((p, dist.all_reduce(p.grad, group=group, async_op=True))))
    return _finisher(started, group)


@mutant("own gradients")
def no_hooks(model, group):
    return lambda: None


@mutant("group ignored")
def in_the_world(model, group):
    started = []
    _with(model, _starter(started, None))
    return _finisher(started, group)
