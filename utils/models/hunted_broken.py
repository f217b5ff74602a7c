"""The short programs of the bug hunt with their bugs, as the notebook gives them: they run before their text is shown."""

from collections.abc import Callable
from inspect import getsource

import torch
import torch.distributed as dist
import torch.nn.functional as F

from utils.models import hunted
from utils.trace.source import remember

__all__ = ["case_1", "case_3", "case_4", "case_6", "case_9"]


def _from_its_own_file(program: Callable) -> Callable:
    """The same program as a file "case_4.py" would give it: a verdict names such a file's lines, and none of utils."""
    source, names = getsource(program).partition("\n")[2] + "\n", {}
    exec(compile(source, remember(f"{program.__name__}.py", source), "exec"), globals(), names)
    return names[program.__name__]


@_from_its_own_file
def case_1(steps: list, lr: float, group: dist.ProcessGroup | None) -> list[dict]:
    """Accumulate over this rank's micro-batches, then one step."""
    model, notes = hunted.small_mlp(), []
    optimizer = hunted.SGD(model.parameters(), lr)
    for micro_batches in steps:
        optimizer.zero_grad()
        total, n_rows = 0.0, sum(len(x_BI) for x_BI, _ in micro_batches)
        for x_BI, y_BO in micro_batches:
            loss = F.mse_loss(model(x_BI), y_BO)
            loss.backward()
            total += loss.detach() * len(x_BI) / n_rows
        for p in model.parameters():
            dist.all_reduce(p.grad, group=group)
            p.grad /= dist.get_world_size(group)
        optimizer.step()
        notes.append(hunted.note(model, total))
    return notes


@_from_its_own_file
def case_3(batches: list, lr: float, group: dist.ProcessGroup | None) -> list[dict]:
    """Train on this rank's share of each batch."""
    model, notes = hunted.small_mlp(), []
    optimizer = hunted.SGD(model.parameters(), lr)
    for x_BI, y_BO in batches:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x_BI), y_BO)
        loss.backward()
        for p in model.body.parameters():
            dist.all_reduce(p.grad, group=group)
            p.grad /= dist.get_world_size(group)
        optimizer.step()
        notes.append(hunted.note(model, loss))
    return notes


@_from_its_own_file
def case_4(steps: list, lr: float, group: dist.ProcessGroup | None) -> list[dict]:
    """Train this rank's stage by 1F1B."""
    r, p = dist.get_rank(group), dist.get_world_size(group)
    stage, notes = hunted.Stage(r, p), []
    optimizer = hunted.SGD(stage.parameters(), lr)
    for xs, ys in steps:
        optimizer.zero_grad()
        passes, n_micro = hunted.Passes(stage, xs, ys, group), len(xs)
        warm_up = min(r, n_micro)
        for _ in range(warm_up):
            passes.forward()
        for _ in range(n_micro - warm_up):
            passes.forward()
            passes.backward()
        for _ in range(warm_up):
            passes.backward()
        loss = passes.finish()
        optimizer.step()
        notes.append(hunted.note(stage, loss))
    return notes


@_from_its_own_file
def case_6(batches: list, lr: float, group: dist.ProcessGroup | None) -> list[dict]:
    """Train on this rank's share of each batch; a hook reduces each gradient during the backward pass."""
    model, notes = hunted.small_mlp(), []
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(lambda p: dist.all_reduce(p.grad, group=group))
    optimizer = hunted.SGD(model.parameters(), lr)
    for x_BI, y_BO in batches:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x_BI), y_BO)
        loss.backward()
        for p in model.parameters():
            dist.all_reduce(p.grad, group=group)
            p.grad /= dist.get_world_size(group)
        optimizer.step()
        notes.append(hunted.note(model, loss))
    return notes


@_from_its_own_file
def case_9(batches: list, lr: float, group: dist.ProcessGroup | None) -> list[dict]:
    """Train with sharded weights; the first layer's weight is gathered ahead of its use."""
    model, notes = hunted.ShardedMLP(dist.get_rank(group), dist.get_world_size(group)), []
    optimizer = hunted.SGD(model.parameters(), lr)
    first = hunted.Gather(model.up, group)
    for x_BI, y_BO in batches:
        second = hunted.Gather(model.down, group)  # travels while the first layer works
        up_IH = first.wait(hunted.IN, hunted.HIDDEN)
        hidden_BH = torch.tanh(x_BI @ up_IH)
        down_HO = second.wait(hunted.HIDDEN, hunted.OUT)
        loss = F.mse_loss(hidden_BH @ down_HO, y_BO)
        loss.backward()
        model.up.grad, model.down.grad = (hunted.mean_shard(whole.grad, group) for whole in (up_IH, down_HO))
        first = hunted.Gather(model.up, group)
        optimizer.step()
        notes.append(hunted.note(model, loss))
    first.wait(hunted.IN, hunted.HIDDEN)  # nobody leaves while something is under way
    return notes
