"""A sharded checkpoint, saved by some ranks and loaded by another number of them."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.exercises.shared import cuts
from grader.exercises.shared.cases import each_rank, pieces
from grader.exercises.shared.formula_cases import formula, single
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip

from .technique import TYPE


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    cases = []
    wanted = ((12, 4, 2), (10, 4, 2), (10, 3, 4), (5, 4, 1), (9, 3, 4), (draw.integer(20, 30), 2, 3), (3, 2, 4), (7, 1, 3))
    for n_elements, old, new in wanted:
        state = [draw.tensor(n_elements, dtype=dtype) for dtype in (torch.bfloat16, torch.float64)]
        state[0][-1] = 0  # a number like any other
        momenta, variances = (pieces(tensor, old) for tensor in state)
        saved = [{"momentum": momentum, "variance": variance}
                 for momentum, variance in zip(momenta, variances, strict=True)]
        cases += [single(f"{n_elements} elements, {old} → rank {rank} of {new}",
                         saved=saved, n_elements=n_elements, n_ranks=new, rank=rank) for rank in sorted({0, new - 1})]
    return cases


def _shard(padded: Tensor, inputs: dict[str, Any]) -> Tensor:
    return pieces(padded[:inputs["n_elements"]], inputs["n_ranks"])[inputs["rank"]]


def _loaded(inputs: dict[str, Any], cut: Callable[[Tensor, dict[str, Any]], Tensor] = _shard) -> dict[str, Tensor]:
    """What cut(all saved shards of a tensor together, inputs) makes of each tensor of the state."""
    return {name: cut(torch.cat([shards[name] for shards in inputs["saved"]]), inputs) for name in inputs["saved"][0]}


def _old_padding_kept(padded: Tensor, inputs: dict[str, Any]) -> Tensor:
    return pieces(padded, inputs["n_ranks"])[inputs["rank"]]


def _zeros_in_front(padded: Tensor, inputs: dict[str, Any]) -> Tensor:
    whole, n = padded[:inputs["n_elements"]], inputs["n_ranks"]
    return torch.cat([whole.new_zeros(-len(whole) % n), whole]).view(n, -1)[inputs["rank"]]


def _dealt(whole: Tensor, inputs: dict[str, Any]) -> Tensor:
    n = inputs["n_ranks"]
    return torch.cat([whole, whole.new_zeros(-len(whole) % n)]).view(-1, n)[:, inputs["rank"]]


def _balanced(padded: Tensor, inputs: dict[str, Any]) -> Tensor:
    return cuts.balanced(padded[:inputs["n_elements"]], inputs["rank"], inputs["n_ranks"])


def _balanced_and_padded(padded: Tensor, inputs: dict[str, Any]) -> Tensor:
    piece = _balanced(padded, inputs)
    return F.pad(piece, (0, -(-inputs["n_elements"] // inputs["n_ranks"]) - len(piece)))


def _wrong(id: str, cut: Callable[[Tensor, dict[str, Any]], Tensor], hint: str) -> Slip:
    return formula(id, lambda inputs: _loaded(inputs, cut), hint)


EXERCISE = Exercise(
    title="Load a sharded checkpoint on another number of ranks",
    parameters=("saved", "n_elements", "n_ranks", "rank"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: _loaded(case.inputs[r])),
    points={VALUES: 4},
    slips=(
        *(_wrong("padding kept", cut, "The old shards' padding is taken for elements: put them together, then cut at "
                 "n_elements.") for cut in (_old_padding_kept, lambda padded, inputs: _old_padding_kept(padded, inputs)[
                     :-(-inputs["n_elements"] // inputs["n_ranks"])])),
        Slip("old shard", "Returned is the shard that the same rank saved: the number of ranks has changed.",
             lambda case, r, right: case.inputs[r]["saved"][case.inputs[r]["rank"]],
             shows=lambda case: case.inputs[0]["rank"] < len(case.inputs[0]["saved"])),
        _wrong("not padded",
               lambda padded, inputs: cuts.rounded_up(padded[:inputs["n_elements"]], inputs["rank"], inputs["n_ranks"]),
               "The last shards must be as long as the others, filled up with zeros."),
        _wrong("balanced", _balanced,
               "Balanced, as tensor_split() cuts: all shards have ⌈n_elements/n_ranks⌉ elements, the last ones filled up "
               "with zeros."),
        _wrong("balanced and padded", _balanced_and_padded,
               "Each shard is as long as it should be, but was cut as tensor_split() cuts, and then filled up: cut every "
               "⌈n_elements/n_ranks⌉ elements, so that zeros come only behind the last one."),
        _wrong("zeros in front", _zeros_in_front, "The padding comes at the end of the flat buffer, behind the elements."),
        _wrong("zeros lost", lambda padded, inputs: pieces(padded[:int(padded.nonzero().max()) + 1], inputs["n_ranks"])[
            inputs["rank"]] if padded.any() else padded, "The last element may be a zero, as any other may: where the "
                                                         "padding begins is told by n_elements, not by what stands there."),
        _wrong("every n-th", lambda padded, inputs: _dealt(padded[:inputs["n_elements"]], inputs),
               "Dealt out in turn: a shard is one slice of the flat buffer, not every n-th element."),
        formula("ranks reversed", lambda inputs: _loaded(inputs | {"saved": inputs["saved"][::-1]}),
                "The old shards are put together in the wrong order: rank 0's comes first."),
        Slip("type not kept", TYPE,
             lambda case, r, right: {name: tensor.float() for name, tensor in right[r].items()}),
        _wrong("everything", lambda padded, inputs: padded[:inputs["n_elements"]],
               "Returned is all of it: cut out this rank's shard."),
    ),
)
