"""What is looked at of a trainer with faults: each function looks for one, by the method that the fault is in.

So that no other fault shows there, a case has no more axes than it needs, and sums that are exact in any precision.
"""


import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from grader.evidence.case import FAULT
from utils.models import hunted_mesh
from utils.models.hunted_mesh import Mesh, Settings, drawn_texts, own_rows, run_trainer

LATE_S = 0.3
N_TEXTS = 5  # which micro-batches of two do not divide, and two replicas do not share equally
REDUCED = {  # fault → how the names of the gradients end that it is about
    "norms": ("norm",), "tied": ("table",), "experts": ("expert_up", "expert_down"),
    "race": (".up", ".down"), "precision": (".up", ".down"),
}
Made = tuple[Any, Mesh, list[Tensor], Settings]  # a trainer, and what it was made of


def drawn_gradients(named: dict[str, Tensor], seed: int, digits: bool = False) -> dict[str, Tensor]:
    """By name a gradient: whole numbers, whose sums are exact in bfloat16, or with all digits."""
    generator = torch.Generator().manual_seed(seed)
    drawn = {name: torch.randn(named[name].shape, generator=generator, dtype=torch.float64) for name in sorted(named)}
    return drawn if digits else {name: (8 * x).round().clamp(-16, 16) for name, x in drawn.items()}


def drawn_rows(seed: int) -> Tensor:
    """Of one rank (R, D)."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(12, hunted_mesh.WIDTH, generator=generator, dtype=torch.float64)


def _texts_taken(made: Made) -> Any:
    """How often each text is in the first two batches, on all replicas together."""
    trainer, mesh, texts, _ = made
    taken = torch.zeros(2, len(texts))
    for batch in taken:
        for text in trainer.next_texts():
            batch[next(number for number, other in enumerate(texts) if torch.equal(other, text))] += 1
    dist.all_reduce(taken, group=mesh.group["data"])
    return taken


def _rows_of_micro_batches(made: Made) -> Any:
    trainer, _, texts, _ = made
    micro_batches = trainer.micro_batches(texts[:N_TEXTS])
    return [torch.cat(rows) for rows in zip(*micro_batches, strict=True)]


def _targets(made: Made) -> Any:
    trainer, mesh, texts, _ = made
    return float(trainer.count_targets([own_rows(texts[:N_TEXTS][mesh.place["data"]::mesh.size["data"]], mesh)]))


def _layer(made: Made) -> Any:
    return next(iter(made[0].layers.values()))


def _router_gradient(made: Made) -> Any:
    layer, x_RD = _layer(made), drawn_rows(made[3].seed)
    y_RD, _ = layer.experts(x_RD)
    (y_RD * x_RD).sum().backward()
    return layer.router.grad


def _balance(made: Made) -> Any:
    return _layer(made).route(drawn_rows(made[3].seed + dist.get_rank()))[2].detach()


def _masks(made: Made) -> Any:
    """How many different ones the ranks draw."""
    dropped = _layer(made).dropped(torch.ones(64, hunted_mesh.WIDTH, dtype=torch.float64), made[0].masks)
    masks = hunted_mesh.collected((dropped == 0).flatten()[None].to(torch.uint8), dist.group.WORLD)
    return len(torch.unique(masks, dim=0))


def _reduced(fault: str, digits: bool = False, at_once: bool = True, late: bool = False) -> Callable[[Made], Any]:
    """The gradients that the fault is about, after they were reduced. late: on rank 0 this begins later."""

    def reduced(made: Made) -> Any:
        trainer, seed = made[0], made[3].seed
        _set_gradients(trainer, seed + dist.get_rank(), digits)
        dist.barrier()
        time.sleep(LATE_S * (late and dist.get_rank() == 0))
        with _finished_at_once() if at_once else contextlib.nullcontext():
            trainer.reduce_gradients()
        return {name: p.grad for name, p in trainer.named_parameters() if name.endswith(REDUCED[fault])}

    return reduced


def _set_gradients(trainer: Any, seed: int, digits: bool = False) -> None:
    named = dict(trainer.named_parameters())
    for name, gradient in drawn_gradients(named, seed, digits).items():
        named[name].grad = gradient


@contextlib.contextmanager
def _finished_at_once() -> Iterator[None]:
    """All-reduces that nobody needs to wait for: whether one waits is looked for elsewhere."""
    all_reduce = dist.all_reduce

    def finished(*args: Any, **named: Any) -> Any:
        work = all_reduce(*args, **named)
        if work is not None:
            work.wait()
        return work

    dist.all_reduce = finished
    try:
        yield
    finally:
        dist.all_reduce = all_reduce


def _ends(made: Made) -> Any:
    """That the reduction of gradients comes to its end."""
    _set_gradients(made[0], made[3].seed)
    made[0].reduce_gradients()
    return True


def _clipped(made: Made) -> Any:
    trainer, mesh, _, settings = made
    whole = drawn_gradients(hunted_mesh.whole_weights(settings.seed), settings.seed)
    own = hunted_mesh.own_weights(whole, dist.get_rank(), mesh.shape)
    for name, p in trainer.named_parameters():
        p.grad = own[name]
    trainer.clip()
    for p in trainer.parameters():
        p.grad /= 2  # now their norm is small enough
    trainer.clip()
    return {name: p.grad for name, p in trainer.named_parameters()}


def _rates(made: Made) -> Any:
    """The learning rates of two steps, by what they do to a weight."""
    trainer, settings = made[0], made[3]
    p = _layer(made).up
    velocity, rates = torch.zeros_like(p), []
    for _ in range(2):
        before = p.detach().clone()
        trainer.step()
        velocity = settings.momentum * velocity + p.grad
        rates.append(float(((before - p) * velocity).sum() / (velocity ** 2).sum()))
    return rates


def _after_restart(made: Made) -> Any:
    """By how much the step after a restart differs from the same step without one."""
    trainer, mesh, texts, settings = made
    for _ in range(2):
        trainer.step()
    other = type(trainer)(mesh, texts, settings)
    other.load(trainer.state())
    trainer.step(), other.step()
    return max(float((a - b).abs().max()) for a, b in zip(trainer.parameters(), other.parameters(), strict=True))


LOOKED_AT = {  # by fault
    "same-texts": _texts_taken, "remainder": _rows_of_micro_batches, "token-mean": _targets,
    "gate": _router_gradient, "balance": _balance, "dropout": _masks,
    "norms": _reduced("norms"), "tied": _reduced("tied"), "experts": _reduced("experts"),
    "race": _reduced("race", at_once=False, late=True), "precision": _reduced("precision", digits=True),
    "local-norm": _clipped, "schedule": _rates, "resume": _after_restart, "order": _ends,
}


def look_for(cls: Callable, inputs: dict[str, Any], group) -> Any:
    """What one fault would change, or the notes of a whole run. inputs: "fault", "shape" of the mesh, "settings"."""
    shape, settings = tuple(inputs["shape"]), Settings(**inputs["settings"])
    look = LOOKED_AT.get(inputs[FAULT])
    if look is None:
        return run_trainer(cls, shape, settings)
    mesh, texts = Mesh(shape), drawn_texts(settings.seed)
    return look((cls(mesh, texts, settings), mesh, texts, settings))
