"""Attention over a sequence in shards, by swapping the cut: whole sequence, own heads, and back (Ulysses)."""

from collections.abc import Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.exercises.shared.cases import each_rank, group_case
from grader.exercises.shared.long_attention import TOLERANCE, another_o, inputs_of, named, whole_attention
from grader.exercises.shared.sequence_inputs import own_piece
from grader.judging.exercise import Case, Draw, Exercise


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(1, 3, 4, 3), (2, 4, 3, 5), (4, 4, 5, 3), (2, 2, 5, 4, torch.float32), (2, 2, 3, 4, torch.bfloat16)]
    sizes += [(3, 6, 2, 3), (4, 8, draw.integer(1, 4), 3)] if grading else []
    cases = [Case(named(*size), tuple(inputs_of(draw, *size))) for size in sizes]
    for own in cases[1].inputs:  # the same number added to all scores changes nothing, however small it makes them
        own["q"][..., 0], own["k"][..., 0] = -300.0, 300.0
    too_few = tuple(inputs | {"sizes": [3, 2]} for inputs in inputs_of(draw, 2, 3, 4, 3))
    return [*cases, group_case(lambda n: inputs_of(draw, n, 6, 3, 3)), Case("3 heads on 2 ranks", too_few)]


def _attention_of(case: Case, rank: int, names: str, scale: float | None) -> Tensor:
    """Causal attention over the whole sequence, with these as queries, keys and values; this rank's part."""
    wholes = (torch.cat(case.peers_inputs(rank, name), 2) for name in names)
    return own_piece(case, rank, F.scaled_dot_product_attention(*wholes, is_causal=True, scale=scale), 2)


def _own_part(case: Case, rank: int) -> Tensor:
    return F.scaled_dot_product_attention(*(case.inputs[rank][name] for name in "qkv"), is_causal=True)


def _not_back(case: Case, rank: int) -> Tensor:
    """The whole sequence of this rank's heads."""
    wholes = (torch.cat(case.peers_inputs(rank, name), 2) for name in "qkv")
    return own_piece(case, rank, F.scaled_dot_product_attention(*wholes, is_causal=True), 1)


EXERCISE = Exercise(
    title="Whole sequence, own heads, and back",
    parameters=("q_BHPK", "k_BHPK", "v_BHPK", "group"),
    make_cases=_cases,
    oracle=each_rank(whole_attention),
    tolerance=TOLERANCE,
    slips=(
        another_o("no mask", "Every query sees all keys, later ones too: is_causal=True.",
                  lambda case, rank: whole_attention(case, rank, causal=False)["o"]),
        *(another_o("another attention", hint, output) for hint, output in (
            ("Keys and values have changed places: scores come from q and k, and weigh v.",
             partial(_attention_of, names="qvk", scale=None)),
            ("The scores are not divided by √K: leave scale= out, or give 1/√K.",
             partial(_attention_of, names="qkv", scale=1.0)))),
        another_o("own part only", "Each rank attends to its own part of the sequence only: swap q, k and v first, so that "
                                   "it has the whole sequence of some heads.", _own_part),
        another_o("not swapped back", "o is the whole sequence of this rank's heads: swap it back to this rank's part of "
                                      "the sequence, all heads.", _not_back),
    ),
)
