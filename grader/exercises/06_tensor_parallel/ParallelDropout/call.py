"""How a rank calls ParallelDropout."""

import hashlib
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from grader.calling.splitting import MASK
from utils.trace.spans import mark

SMALL = 200  # numbers in a mask of which only a digest is kept
ROUNDED = {torch.bfloat16: 2.0 ** -6}


def call(cls: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """Some modules, some calls each → what holds of them; a mark with masks, and with digests of other seeds' masks."""
    p, shape, dtype, seed = inputs["p"], inputs["shape"], getattr(torch, inputs["dtype"]), inputs["seed"]
    ones, facts, kept = torch.ones(shape, dtype=dtype), {}, []
    torch.manual_seed(100 + dist.get_rank())  # as after reading other data: no two ranks draw the same from here
    state = torch.get_rng_state()

    def made(number: int) -> nn.Module:
        return cls(p, number, inputs["split"], group)

    def dropped(module: nn.Module, x: Tensor) -> Tensor:
        given = x.clone()
        y = module(given)
        kept.append(torch.equal(given, x))
        return y

    first, again = made(seed), made(seed)
    outputs = [dropped(first, ones) for _ in range(inputs["steps"])]
    x, scale = ones.clone().requires_grad_(), torch.arange(ones.numel(), dtype=dtype).view(shape) % 7 + 1
    y = first(x * scale)
    y.sum().backward()
    small = torch.ones(SMALL, dtype=dtype)
    digests, counts = {}, set()
    for number in inputs["seeds"]:
        module = made(number)
        masks = [dropped(module, small) == 0 for _ in range(2)]
        digests[str(number)] = [_digest(mask) for mask in masks]
        counts |= {int(mask.sum()) for mask in masks}
    facts["global random state as it was"] = torch.equal(state, torch.get_rng_state())
    facts["input left as it was"] = all(kept)
    torch.manual_seed(7)
    facts["same masks with the same seed"] = all(torch.equal(again(ones), output) for output in outputs)
    interrupted = made(seed)
    facts["eval draws nothing"] = all(_between_evaluations(interrupted, ones, output) for output in outputs)
    wanted, rounded = torch.where(y != 0, scale / (1 - p), 0.0).double(), ROUNDED.get(dtype, 1e-6)
    facts["what is kept is scaled"] = torch.allclose(y.double(), wanted, rtol=rounded)
    facts["gradient through the same mask"] = torch.allclose(x.grad.double(), wanted, rtol=rounded)
    facts["dtype"] = str(y.dtype)
    first.eval()
    facts["eval changes nothing"] = torch.equal(first(scale), scale)
    mark(MASK, calls=["".join("01"[number == 0] for number in output.flatten().tolist()) for output in outputs],
         of_seeds=digests, counts=sorted(counts))
    return facts


def _between_evaluations(module: nn.Module, x: Tensor, output: Tensor) -> bool:
    """Whether training gives this output though an evaluation came before."""
    module.eval()(x)
    return torch.equal(module.train()(x), output)


def _digest(mask: Tensor) -> str:
    return hashlib.sha256(bytes(mask.tolist())).hexdigest()[:12]
