"""The model that a case trains, as it is at the start, and which gradients it has: what limits on bytes are counted from."""

import functools

from torch import Tensor, nn

from grader.calling.zoo import build, loss_rows
from grader.judging.exercise import Case


def given_model(case: Case, rank: int) -> nn.Module:
    """The model that a rank is given; its sizes are those of all ranks, its numbers need not be."""
    return build(case.inputs[rank]["model"], case.inputs[rank]["seed"])


def model_seen(case: Case, rank: int) -> nn.Module:
    """The same, for those who only look at its sizes: demands on many ranks and submissions share one."""
    return _drawn(case.inputs[rank]["model"], case.inputs[rank]["seed"])


_drawn = functools.lru_cache(maxsize=64)(build)


def model_of(case: Case, rank: int) -> nn.Module:
    """The model as the first member of `rank`'s group has it at the start."""
    return given_model(case, case.members(rank)[0])


@functools.lru_cache(maxsize=64)
def reduced(case: Case, rank: int, number: int = 0) -> dict[str, Tensor]:
    """Name → a parameter's shape and dtype (on "meta": it is remembered), of those that get a gradient; a tied one once.

    number: of the backward pass, where a case has several.
    """
    model, inputs = given_model(case, rank), case.inputs[rank]
    x, y = (inputs[name] if name in inputs else inputs[f"{name}s"][number] for name in ("x", "y"))
    loss = loss_rows(model(x), y).sum()
    if loss.requires_grad:
        loss.backward()
    return {name: p.detach().to("meta") for name, p in model.named_parameters() if p.grad is not None}
