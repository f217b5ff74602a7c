"""Sealed cases: a rank learns what its part of the weights is once the part is cut, and never what the others' parts are.

Whole weights are handed out with a random factor in each number. A rank is told the factors of its own part, and they are
put into what the function has made; so whoever computes with others' parts, by whatever means, computes with wrong ones.
"""

import secrets
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from grader.evidence.case import SEALED, Case

LARGEST_POWER = 3  # factors are ±1/8 to ±8, powers of two: no digit is lost


class Cut(NamedTuple):
    """How a whole weight lies on ranks: in `pieces` pieces along `dim`, of each of `parts` tensors that are joined in it.

    path: where the whole one is among a case's inputs.
    """

    path: tuple[str, ...]
    dim: int
    pieces: int
    parts: int = 1


def handed_out(case: Case) -> list[dict[str, Any]]:
    """Each rank's inputs as they are sent; in a sealed case, one of all ranks together, without what it is not to know."""
    if not case.sealed:
        return list(case.inputs)
    found = [inputs | {SEALED: {}} for inputs in case.inputs]
    for name, cut in case.inputs[0][SEALED].items():
        whole = _at(case.inputs[0], cut.path)
        factors = _powers_of_two(whole)
        given = whole / factors
        for rank in range(case.world_size):
            found[rank] = _with(found[rank], cut.path, given)
            found[rank][SEALED][name] = _part(factors, cut, rank * cut.pieces // case.world_size)
    return found


def with_state(module: nn.Module, inputs: dict[str, Any]) -> nn.Module:
    """The module; in a sealed case with the parameters that are handed out."""
    if SEALED in inputs:
        module.load_state_dict(inputs["state"], strict=False)
    return module


def unseal(module: nn.Module, inputs: dict[str, Any], plain_name: Callable[[str], str] = str) -> None:
    """Put its factors into each parameter that is a part; what has another shape is none.

    plain_name: a name in the module → that in the plain one.
    """
    named = {plain_name(name): p for name, p in module.named_parameters()}
    with torch.no_grad():
        for name, factors in inputs.get(SEALED, {}).items():
            if name in named and named[name].shape == factors.shape:
                named[name] *= factors


def _powers_of_two(like: Tensor) -> Tensor:
    """Drawn from a seed that nobody finds by trying: torch's own is the same in every new process."""
    drawn = torch.Generator().manual_seed(secrets.randbits(63))
    powers = torch.randint(-LARGEST_POWER, LARGEST_POWER + 1, like.shape, generator=drawn)
    signs = torch.randint(0, 2, like.shape, generator=drawn) * 2 - 1
    return (signs * 2.0 ** powers).to(like.dtype)


def _part(whole: Tensor, cut: Cut, piece: int) -> Tensor:
    return torch.cat([part.chunk(cut.pieces, cut.dim)[piece] for part in whole.chunk(cut.parts, cut.dim)], cut.dim)


def _at(inputs: dict[str, Any], path: tuple[str, ...]) -> Tensor:
    for key in path:
        inputs = inputs[key]
    return inputs


def _with(inputs: dict[str, Any], path: tuple[str, ...], value: Tensor) -> dict[str, Any]:
    """A copy with another value there."""
    key, *rest = path
    return inputs | {key: _with(inputs[key], tuple(rest), value) if rest else value}
