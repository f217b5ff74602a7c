"""Inside a rank: the ways in which exercises about split attention, dropout, vocabularies and GPTs are called."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from utils.models.tiny import TinyGPT, next_byte_loss, same_start
from utils.trace.spans import mark, span

OWN_NUMBERS, KEPT_ALIVE, MASK = "own numbers", "bytes kept alive", "mask drawn"
FORWARD, BACKWARD = "forward", "backward"
REFUSED = "ValueError that names"
LAYERS = ("q", "k", "v", "out")
WEIGHT = 15.0  # times the standard deviation of 0.02


def call_parallel_attention(cls: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """module = cls(q, k, v, out, n_heads, n_kv_heads, group), one pass each way → own parameters, y, dx, gradients."""
    counts = inputs["n_heads"], inputs["n_kv_heads"]
    module = _built(lambda: cls(*(_linear(**inputs[name]) for name in LAYERS), *counts, group), inputs["sizes"])
    if not isinstance(module, nn.Module):
        return module
    _mark_parameters(module)
    own = {f"{name}.{part}": getattr(getattr(module, name), part) for name in LAYERS for part in ("weight", "bias")}
    start = {name: None if p is None else p.detach().clone() for name, p in own.items()}
    x_BTD = inputs["x"].clone().requires_grad_()
    with span(FORWARD):
        y_BTD = module(x_BTD)
    with span(BACKWARD):
        (y_BTD * inputs["weights"]).sum().backward()
    gradients = {name: None if p is None else p.grad for name, p in own.items()}
    return {"parameters": start, "y": y_BTD, "dx": x_BTD.grad, "gradients": gradients}


def call_parallel_dropout(cls: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """Some modules, some calls each → what holds of them; a mark for every mask."""
    p, shape, dtype = inputs["p"], inputs["shape"], getattr(torch, inputs["dtype"])
    ones, found = torch.ones(shape, dtype=dtype), {}
    torch.manual_seed(100 + dist.get_rank())  # as after reading other data: no two ranks draw the same from here
    state = torch.get_rng_state()
    seed = inputs["seed"]
    first, again, other = (cls(p, one, inputs["split"], group) for one in (seed, seed, seed + 1))
    outputs = [first(ones) for _ in range(inputs["steps"])]
    other_output = other(ones)
    x, scale = ones.clone().requires_grad_(), torch.arange(ones.numel(), dtype=dtype).view(shape) % 7 + 1
    y = first(x * scale)
    y.sum().backward()
    found["global random state as it was"] = torch.equal(state, torch.get_rng_state())
    torch.manual_seed(7)
    found["same masks with the same seed"] = all(torch.equal(again(ones), one) for one in outputs)
    wanted = torch.where(y != 0, scale / (1 - p), 0.0).double()
    found["what is kept is scaled"] = torch.allclose(y.double(), wanted, rtol=1e-6)
    found["gradient through the same mask"] = torch.allclose(x.grad.double(), wanted, rtol=1e-6)
    found["dtype"] = str(y.dtype)
    first.eval()
    found["eval changes nothing"] = torch.equal(first(scale), scale)
    for number, one in enumerate(outputs):
        _mark_mask(one, "this", number)
    _mark_mask(other_output, "other", 0)
    return found


def call_parallel_embedding(cls: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """module = cls(embedding, group), one pass each way → own rows, y, their gradient."""
    table = inputs["table"]
    module = _built(lambda: cls(nn.Embedding(*table.shape, _weight=table.clone()), group), inputs["sizes"])
    if not isinstance(module, nn.Module):
        return module
    _mark_parameters(module)
    start = module.weight.detach().clone()
    with span(FORWARD):
        y = module(inputs["ids"])
    with span(BACKWARD):
        (y * inputs["weights"]).sum().backward()
    return {"weight": start, "y": y, "dweight": module.weight.grad}


def call_parallel_cross_entropy(function: type[torch.autograd.Function], inputs: dict[str, Any], group) -> dict[str, Any]:
    """losses = function.apply(logits, targets, group) → losses, and the logits' gradient; marks for inputs that changed."""
    logits_BP, targets_B = inputs["logits"].clone().requires_grad_(), inputs["targets"].clone()
    with span(FORWARD):
        losses_B = function.apply(logits_BP, targets_B, group)
    with span(BACKWARD):
        (losses_B * inputs["weights"]).sum().backward()
    kept = torch.equal(logits_BP.detach(), inputs["logits"]) and torch.equal(targets_B, inputs["targets"])
    return {"losses": losses_B, "dlogits": logits_BP.grad, "inputs left as they were": kept}


def call_tensor_parallel_gpt(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """model = fn(TinyGPT, group), some steps of SGD → parameters at the start and the end, losses, first gradients."""
    model = _built(lambda: fn(make_gpt(inputs), group), inputs["sizes"])
    if not isinstance(model, nn.Module):
        return model
    _mark_parameters(model)
    start = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), lr=inputs["lr"])
    losses, first = [], {}
    for tokens_BT in inputs["batches"]:
        optimizer.zero_grad()
        with span(FORWARD):
            logits_BTV = model(tokens_BT[:, :-1])
        loss = next_byte_loss(logits_BTV, tokens_BT[:, 1:]).mean()
        with span(BACKWARD):
            loss.backward()
        losses.append(loss.detach())
        first = first or {name: None if p.grad is None else p.grad.clone() for name, p in model.named_parameters()}
        optimizer.step()
    end = {name: p.detach() for name, p in model.named_parameters()}
    return {"start": start, "losses": losses, "gradients": first, "parameters": end}


def make_gpt(inputs: dict[str, Any]) -> TinyGPT:
    """The case's model; its blocks weigh more than at a usual start, no bias is 0 and no scale 1: whatever is lost shows."""
    model = same_start(TinyGPT, inputs["seed"], **inputs["model"]).to(getattr(torch, inputs["dtype"]))
    generator = torch.Generator().manual_seed(inputs["seed"])
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() == 1:
                p += 0.1 * torch.randn(p.shape, generator=generator).to(p.dtype)
            elif name.startswith("blocks."):
                p *= WEIGHT
    return model


def _linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, dtype=weight.dtype)
    layer.weight.data.copy_(weight)
    if bias is not None:
        layer.bias.data.copy_(bias)
    return layer


def _built(make: Callable[[], Any], sizes: list[int]) -> Any:
    """What make() returns; of a ValueError, which of `sizes` its text names."""
    try:
        return make()
    except ValueError as error:
        return {REFUSED: [size for size in sizes if str(size) in str(error)]}


def _mark_parameters(module: nn.Module) -> None:
    parameters = list(module.parameters())
    storages = {p.untyped_storage().data_ptr(): p.untyped_storage().nbytes() for p in parameters}
    mark(OWN_NUMBERS, count=sum(p.numel() for p in parameters))
    mark(KEPT_ALIVE, bytes=sum(storages.values()))


def _mark_mask(output: Tensor, which: str, call: int) -> None:
    dropped = (output == 0).flatten()
    digest = hashlib.sha256(bytes(dropped.tolist())).hexdigest()
    mark(MASK, module=which, call=call, digest=digest, dropped=int(dropped.sum()), size=dropped.numel())
