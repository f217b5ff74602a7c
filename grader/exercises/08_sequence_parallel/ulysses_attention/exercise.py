"""Attention over a sequence in shards, by swapping the cut: whole sequence, own heads, and back (Ulysses)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.exercises.shared.cases import each_rank, group_case
from grader.exercises.shared.long_attention import (
    PARTS,
    TOLERANCE,
    inputs_of,
    named,
    not_refused,
    where_wrong,
    whole_attention,
)
from grader.exercises.technique.sharding import first_wrong
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, group_size, not_far_more_bytes, only_calls, results_waited
from grader.judging.exercise import Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, unwaited, wrong_ranks
from utils.costs.formulas import bytes_sent_per_rank

SWAPS = 4  # q, k, v there, o back


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(1, 3, 4, 3), (2, 4, 3, 5), (4, 4, 5, 3), (2, 2, 5, 4, torch.float32), (2, 2, 3, 4, torch.bfloat16)]
    sizes += [(3, 6, 2, 3), (4, 8, draw.integer(1, 4), 3)] * grading
    cases = [Case(named(*one), tuple(inputs_of(draw, *one))) for one in sizes]
    too_few = tuple(one | {"sizes": [3, 2]} for one in inputs_of(draw, 2, 3, 4, 3))
    return [*cases, group_case(lambda n: inputs_of(draw, n, 6, 3, 3)), Case("3 heads on 2 ranks", too_few)]


def _o_as(output: Callable[[Look, int, dict[str, list[Tensor]]], Tensor]) -> Callable[[Look], bool]:
    """o, where it is wrong, is output(look, rank, q, k and v of all its group)."""
    return where_wrong("o", lambda look, rank: output(look, rank, {name: look.case.peers_inputs(rank, name)
                                                                   for name in "qkv"}))


def _uncausal(look: Look, rank: int, qkv: dict[str, list[Tensor]]) -> Tensor:
    o = F.scaled_dot_product_attention(*(torch.cat(qkv[name], 2) for name in "qkv"))
    return o.chunk(group_size(look, rank), 2)[look.case.group_rank(rank)]


def _own_part(look: Look, rank: int, qkv: dict[str, list[Tensor]]) -> Tensor:
    return F.scaled_dot_product_attention(*(qkv[name][look.case.group_rank(rank)] for name in "qkv"), is_causal=True)


def _not_back(look: Look, rank: int, qkv: dict[str, list[Tensor]]) -> Tensor:
    """The whole sequence of this rank's heads."""
    whole = F.scaled_dot_product_attention(*(torch.cat(qkv[name], 2) for name in "qkv"), is_causal=True)
    return whole.chunk(group_size(look, rank), 1)[look.case.group_rank(rank)]


def _heads_mixed(look: Look, rank: int, found: Any, expected: Any) -> bool:
    """The same heads, in another order."""
    return not same(found["o"], expected["o"], 1e-5) and all(
        any(same(head, other, 1e-5) for other in expected["o"].unbind(1)) for head in found["o"].unbind(1))


def _sent(look: Look, rank: int) -> float:
    """Each swap of (n−1)/n of a shard, forward and backward."""
    return 2 * SWAPS * bytes_sent_per_rank("all_to_all", look.case.inputs[rank]["q"].nbytes, group_size(look, rank))


def _part(name: str) -> Callable[[Look], bool]:
    return lambda look: "sizes" not in look.case.inputs[0] and first_wrong(look, PARTS) == name


def _only_gradients(look: Look) -> bool:
    return any(_part(name)(look) for name in PARTS[1:])


EXERCISE = Exercise(
    title="Whole sequence, own heads, and back",
    parameters=("q_BHSK", "k_BHSK", "v_BHSK", "group"),
    make_cases=_cases,
    oracle=each_rank(lambda case, rank: whole_attention(case, rank, "plain")),
    tolerance=TOLERANCE,
    optional=True,
    technique=Technique(
        demands=(
        only_calls("all_to_all", hint="Only all-to-alls: an all-gather would bring the whole of K and V, all heads, to "
                                      "every rank."),
        not_far_more_bytes(_sent, "Far more was sent than four swaps each way."),
        bytes_sent(_sent, "four swaps each way, (n−1)/n of a shard each",
                   "Right, but more was sent than one swap each for q, k, v and o, forward and backward."),
        results_waited(),
    ),
        symptoms=(
        group_ignored("The ranks of other groups are touched: pass group to every swap and to dist.get_world_size."),
        unwaited(),
        Symptom("no mask", "Every query sees all keys, later ones too: is_causal=True.", _o_as(_uncausal)),
        Symptom("own part only", "Each rank attends to its own part of the sequence only: swap q, k and v first, so that it "
                                 "has the whole sequence of some heads.", _o_as(_own_part)),
        Symptom("not swapped back", "o is the whole sequence of this rank's heads: swap it back to this rank's part of the "
                                    "sequence, all heads.", _o_as(_not_back)),
        Symptom("heads mixed", "The heads come back in another order than they went.", wrong_ranks(_heads_mixed)),
        Symptom("wrong output", "o is wrong: cut heads, join the sequence; causal attention; cut the sequence, join heads.",
                _part("o")),
        Symptom("gradients stay", "o is right, the gradients are not: they must travel back through the same swaps. Use an "
                                  "autograd function for each, such as SwapShards.", _only_gradients),
        not_refused("The ranks must divide the heads: raise a ValueError that names both numbers, before anything is sent."),
    ),
    ),
)
