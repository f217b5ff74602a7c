"""How a rank calls DropInShardedOptimizer."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR, StepLR

from grader.calling.training import OPTIMIZERS, Held, param_groups, parameters
from grader.calling.zoo import build, loss_rows
from utils.trace.spans import mark, span

LEFT, STEP, CLOSURE = "gradients left", "step", "closure"
DECAY, MOMENTUM = 0.1, 0.95  # of weights; what a scheduler sets, of SGD or as the first of AdamW's betas


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """fn(params, optimizer class, group, lr=…) trains, a second one goes on from its state → parameters, the last loss."""
    model, made = build(inputs["model"], inputs["seed"]), on_right_base(fn)

    def make() -> Any:
        of_group = () if group is dist.group.WORLD else (group,)
        return made(param_groups(model, inputs), OPTIMIZERS[inputs["optimizer"]], *of_group, lr=inputs["lr"],
                    **inputs["options"])

    optimizer, loss, all_saved = _train(model, make, inputs)
    missing = sorted(defaults_of(inputs).keys() - optimizer.defaults.keys())
    return Held({"parameters": parameters(model), "loss": loss, "missing defaults": missing, "all saved": all_saved},
                model, optimizer)


def on_right_base(fn: Callable) -> Callable:
    """The same class, whose super() is right whatever the ShardedOptimizer is on which it builds.

    So a mistake there costs nothing here. It takes another way than asked for there: all-reduces, and every n-th tensor.
    """
    base = getattr(fn, "__base__", None)
    if base is None or base.__name__ != "ShardedOptimizer":
        return fn

    class Right(base):
        def __init__(self, params, optimizer_class, group=None, **options):
            torch.optim.Optimizer.__init__(self, params, options)
            self.group, self.n, rank = group, dist.get_world_size(group), dist.get_rank(group)
            everything = [p for one in self.param_groups for p in one["params"]]
            self.owner = {p: number % self.n for number, p in enumerate(everything)}
            self.wrapped = optimizer_class([one | {"params": [p for p in one["params"] if self.owner[p] == rank]}
                                            for one in self.param_groups], **options)

        def step(self):
            trained = [p for p in self.owner if p.grad is not None]
            for p in trained:
                dist.all_reduce(p.grad, group=self.group)
                p.grad /= self.n
            self.wrapped.step()
            for p in trained:
                if self.owner[p] != dist.get_rank(self.group):
                    p.data.zero_()
                dist.all_reduce(p.data, group=self.group)

    return type(fn.__name__, (fn, Right), {})


def defaults_of(inputs: dict[str, Any]) -> dict[str, Any]:
    """All options of the wrapped optimizer."""
    return OPTIMIZERS[inputs["optimizer"]]([torch.zeros(1)]).defaults


def cycle(optimizer: torch.optim.Optimizer) -> None:
    """Puts it under OneCycleLR, which looks for momentum or betas in `defaults` and in every group, and sets the momentum.

    The rates stay: they begin at a 25th of the highest one.
    """
    highest = [25 * options["lr"] for options in optimizer.param_groups]
    OneCycleLR(optimizer, highest, total_steps=100, max_momentum=MOMENTUM)


def _train(model: nn.Module, make: Callable[[], Any], inputs: dict[str, Any]) -> tuple[Any, Any, bool]:
    """Some steps on batches of its own, under a scheduler; halfway a second optimizer goes on from the first one's state.

    The rate is halved before the second half, and then after every step; the momentum is set after the first step, see
    cycle(), and saved; in the second half weights decay. Leaves a mark for gradients that are left after zero_grad(). → the
    second optimizer, what its last step returned, and whether all options that the first one had were saved.
    """
    optimizer, half = make(), len(inputs["xs"]) // 2
    scheduler = StepLR(optimizer, half, gamma=0.5)
    for number, (x, y) in enumerate(zip(inputs["xs"], inputs["ys"], strict=True)):
        if number == half:
            state, options = optimizer.state_dict(), [one.keys() for one in optimizer.param_groups]
            optimizer = make()
            optimizer.load_state_dict(state)
            all_saved = all(own <= one.keys() for own, one in zip(options, optimizer.param_groups, strict=True))
            scheduler = StepLR(optimizer, 1, gamma=0.5)
            for options in optimizer.param_groups:
                options["weight_decay"] = DECAY
        if number == 1:
            cycle(optimizer)
        optimizer.zero_grad()
        mark(LEFT, count=sum(p.grad is not None and bool(p.grad.any()) for p in model.parameters()))

        def closure(x=x, y=y) -> torch.Tensor:
            with span(CLOSURE):
                loss = loss_rows(model(x), y).mean()
                loss.backward()
            return loss.detach()

        if number < half:
            closure()
        with span(STEP):
            loss = optimizer.step(closure) if number >= half else optimizer.step()
        scheduler.step()
    model.zero_grad()
    return optimizer, loss, all_saved
