"""How a rank calls ParallelDropout."""

import hashlib
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from grader.calling.splitting import MASK
from utils.trace.spans import mark


def call(cls: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """Some modules, some calls each → what holds of them; a mark for every mask."""
    p, shape, dtype, seed = inputs["p"], inputs["shape"], getattr(torch, inputs["dtype"]), inputs["seed"]
    ones, facts = torch.ones(shape, dtype=dtype), {}
    torch.manual_seed(100 + dist.get_rank())  # as after reading other data: no two ranks draw the same from here
    state = torch.get_rng_state()
    first, again, with_next_seed = (cls(p, number, inputs["split"], group) for number in (seed, seed, seed + 1))
    outputs = [first(ones) for _ in range(inputs["steps"])]
    next_seeds_output = with_next_seed(ones)
    x, scale = ones.clone().requires_grad_(), torch.arange(ones.numel(), dtype=dtype).view(shape) % 7 + 1
    y = first(x * scale)
    y.sum().backward()
    facts["global random state as it was"] = torch.equal(state, torch.get_rng_state())
    torch.manual_seed(7)
    facts["same masks with the same seed"] = all(torch.equal(again(ones), output) for output in outputs)
    wanted = torch.where(y != 0, scale / (1 - p), 0.0).double()
    facts["what is kept is scaled"] = torch.allclose(y.double(), wanted, rtol=1e-6)
    facts["gradient through the same mask"] = torch.allclose(x.grad.double(), wanted, rtol=1e-6)
    facts["dtype"] = str(y.dtype)
    first.eval()
    facts["eval changes nothing"] = torch.equal(first(scale), scale)
    for number, output in enumerate(outputs):
        _mark_mask(output, "this", number)
    _mark_mask(next_seeds_output, "other", 0)
    return facts


def _mark_mask(output: Tensor, which: str, call_number: int) -> None:
    dropped = (output == 0).flatten()
    digest = hashlib.sha256(bytes(dropped.tolist())).hexdigest()
    mark(MASK, module=which, call=call_number, digest=digest, dropped=int(dropped.sum()), size=dropped.numel())
