"""Causal attention over a sequence in shards: keys and values pass round the ring, all ranks do the same work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from grader.calling.rings import FLOPS, RESULTS
from grader.calling.sharding import HELD
from grader.exercises.shared.cases import each_rank, group_case
from grader.exercises.shared.long_attention import (
    PARTS,
    TOLERANCE,
    inputs_of,
    named,
    not_refused,
    where_wrong,
    whole_attention,
    with_sizes,
)
from grader.exercises.technique.sharding import first_wrong
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, group_size, only_calls, results_waited, ring_neighbours, sends_waited
from grader.judging.exercise import Case, Demand, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import deadlocked, group_ignored, raised, unwaited, wrong_ranks

FLOPS_A_PAIR = 16  # times K: 2 products forward, at most 6 backward, a multiplication and an addition each
SLACK = 1.02


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(1, 2, 6, 3), (2, 3, 4, 5), (4, 2, 6, 5), (2, 1, 6, 3, torch.float32)]
    sizes += [(3, 1, 2 * draw.integer(2, 4), 4), (3, 2, 10, 3)] * grading
    cases = [Case(named(*one), tuple(inputs_of(draw, *one))) for one in sizes]
    odd = tuple(one | {"sizes": [5]} for one in inputs_of(draw, 2, 1, 5, 3))
    return [*cases, group_case(lambda n: inputs_of(draw, n, 2, 4, 3)), Case("an odd number of rows", odd)]


# ── wrong ways, each as what a rank sees of whom ──

Sees = Callable[[int, int, int, int], tuple[int, int, Tensor]]


def _pass_by(case: Case, rank: int, sees: Sees) -> Tensor:
    """o of one rank, when in each step it attends to (whose K, whose V, mask) = sees(n, r, step, rows)."""
    n, r, q = len(case.members(rank)), case.group_rank(rank), case.inputs[rank]["q"]
    ks, vs, rows = case.peers_inputs(rank, "k"), case.peers_inputs(rank, "v"), q.shape[2]
    steps = [sees(n, r, step, rows) for step in range(n)]
    scores = torch.cat([(q @ ks[key].mT * q.shape[-1] ** -0.5).masked_fill(~mask, float("-inf"))
                        for key, _, mask in steps], -1)
    return torch.softmax(scores, -1) @ torch.cat([vs[value] for _, value, _ in steps], 2)


def _right_mask(n: int, r: int, source: int, rows: int) -> Tensor:
    def positions(rank: int) -> Tensor:
        half = torch.arange(rows // 2)
        return torch.cat((half + rank * len(half), half + (2 * n - 1 - rank) * len(half)))

    return positions(r)[:, None] >= positions(source)


def _local(n: int, r: int, step: int, rows: int) -> tuple[int, int, Tensor]:
    source = (r - step) % n
    return source, source, torch.ones(rows, rows, dtype=torch.bool).tril()


def _all(n: int, r: int, step: int, rows: int) -> tuple[int, int, Tensor]:
    source = (r - step) % n
    return source, source, torch.ones(rows, rows, dtype=torch.bool)


def _in_one_piece(n: int, r: int, step: int, rows: int) -> tuple[int, int, Tensor]:
    source = (r - step) % n
    mask = torch.ones(rows, rows, dtype=torch.bool)
    return source, source, mask.tril() if source == r else mask & (source < r)


def _other_way(n: int, r: int, step: int, rows: int) -> tuple[int, int, Tensor]:
    return (r + step) % n, (r + step) % n, _right_mask(n, r, (r - step) % n, rows)


def _own_values(n: int, r: int, step: int, rows: int) -> tuple[int, int, Tensor]:
    source = (r - step) % n
    return source, r, _right_mask(n, r, source, rows)


def _own_part(n: int, r: int, step: int, rows: int) -> tuple[int, int, Tensor]:
    return r, r, _right_mask(n, r, r, rows) & (step == 0)


def _as(sees: Sees) -> Callable[[Look], bool]:
    return where_wrong("o", lambda look, rank: _pass_by(look.case, rank, sees))


def _own_queries(look: Look, rank: int, found: Any, expected: Any) -> bool:
    """dq is right, and dk is what this rank's own queries alone contribute."""
    inputs, k = look.case.inputs[rank], look.case.inputs[rank]["k"].clone().requires_grad_()
    n, r, q = group_size(look, rank), look.case.group_rank(rank), inputs["q"]
    ks = [k if m == r else one for m, one in enumerate(look.case.peers_inputs(rank, "k"))]
    scores = torch.cat([(q @ one.mT * q.shape[-1] ** -0.5).masked_fill(
        ~_right_mask(n, r, m, q.shape[2]), float("-inf")) for m, one in enumerate(ks)], -1)
    o = torch.softmax(scores, -1) @ torch.cat(look.case.peers_inputs(rank, "v"), 2)
    (o * inputs["weights"]).sum().backward()
    return same(found["dq"], expected["dq"], 1e-5) and same(found["dk"], k.grad, 1e-5)


def _a_neighbours(look: Look, rank: int, found: Any, expected: Any) -> bool:
    members, r = look.case.members(rank), look.case.group_rank(rank)
    return same(found["dq"], expected["dq"], 1e-5) and any(
        same(found["dk"], look.right[members[(r + shift) % len(members)]]["dk"], 1e-5) for shift in (1, -1))


def _part(name: str) -> Callable[[Look], bool]:
    return lambda look: not with_sizes(look) and first_wrong(look, PARTS) == name


# ── demands ──

def _sent(look: Look, rank: int) -> float:
    """K and V n − 1 times forward, n − 1 times backward; their gradients n times."""
    n, one = group_size(look, rank), look.case.inputs[rank]["k"].nbytes
    return 2.0 * one * (3 * n - 2) if n > 1 else 0.0


def _facts(look: Look, rank: int, name: str) -> dict[str, Any]:
    return next((s.facts for s in look.evidence.trace.spans if s.rank == rank and s.name == name), {})


def _work(look: Look) -> tuple[bool, str]:
    """Two of four blocks of each other rank's, all four of one's own."""
    for rank in look.working:
        batch, heads, rows, size = look.case.inputs[rank]["q"].shape
        allowed = FLOPS_A_PAIR * batch * heads * size * (rows / 2) ** 2 * (2 * group_size(look, rank) + 2) * SLACK
        found = sum(_facts(look, rank, FLOPS).values())
        if found > allowed:
            return False, f"rank {rank} did {found:,} FLOPs, allowed {allowed:,.0f}"
    return True, ""


def _kept(look: Look) -> tuple[bool, str]:
    for rank in look.working:
        allowed, found = RESULTS * look.case.inputs[rank]["q"].nbytes + 1000, _facts(look, rank, HELD).get("bytes", 0)
        if found > allowed:
            return False, f"rank {rank} held {found:,} B more after the forward pass, allowed {allowed:,} B"
    return True, ""


EXERCISE = Exercise(
    title="Ring attention, with the same work for all",
    parameters=("q_BHSK", "k_BHSK", "v_BHSK", "group"),
    make_cases=_cases,
    oracle=each_rank(lambda case, rank: whole_attention(case, rank, "zigzag")),
    tolerance=TOLERANCE,
    points={"values": 4, "technique": 4},
    optional=True,
    technique=Technique(
        demands=(
        only_calls("send", "recv", id="whole gather", hint=(
            "Keys and values pass round the ring, rank to rank: only sends and receives, so that no rank ever holds the "
            "whole sequence.")),
        Demand("hidden blocks computed", "no work on chunks that no query may see",
               "Right, but a rank multiplies chunks that the causal mask then hides. From an earlier rank only its first "
               "half is seen, by all rows; from a later rank all is seen, by the second half of the rows.", _work),
        Demand("others' keys kept", "q, k, v, o and lse stand between forward and backward",
               "Right, but other ranks' keys and values, or the probabilities, stand from forward to backward: save only "
               "your own q, k, v, o and lse, and let K and V go round again.", _kept),
        ring_neighbours(),
        bytes_sent(_sent, "K and V 2(n−1) times, their gradients n times",
                   "Right, but more was sent than K and V n − 1 times each way, and dK and dV n times."),
        results_waited(),
        sends_waited(),
    ),
        symptoms=(
        group_ignored(),
        raised("itself: skip the exchange", "With one rank there is nobody to send to: skip the exchange.", "one rank"),
        deadlocked("", "Every rank waits in a send or a receive: start the send with isend, then receive, then wait.",
                   "ring stands"),
        unwaited(),
        Symptom("own part only", "Each rank attends to its own keys and nothing else: K and V of the others must come by, "
                                 "and be merged.", _as(_own_part)),
        Symptom("mask by local index", "The causal mask compares positions inside the shards, but chunks of other ranks lie "
                                       "elsewhere in the sequence: compare global positions. The mask is triangular for a "
                                       "rank's own keys only.", _as(_local)),
        Symptom("no mask", "Every query sees all keys, later ones too.", _as(_all)),
        Symptom("shards in one piece", "You treat rank r's shard as one piece of the sequence. It is two chunks, r and "
                                       "2n−1−r: the second one lies after the chunks of later ranks too.",
                _as(_in_one_piece)),
        Symptom("wrong way round", "The blocks are taken for another rank's: what goes to the next rank comes from the one "
                                   "before, so after `step` steps rank r has the keys of rank (r − step) mod n.",
                _as(_other_way)),
        Symptom("values not sent", "The keys travel, the values do not: each output mixes this rank's own V with the "
                                   "others' weights.", _as(_own_values)),
        Symptom("gradients left on the way", "dK and dV are right, but on the wrong rank: they travel with their K and V "
                                             "and need one more hop, n in all, to be home.", wrong_ranks(_a_neighbours)),
        Symptom("own queries only", "dK and dV hold only what this rank's own queries contribute: the queries of all other "
                                    "ranks must add theirs while the gradients go round.", wrong_ranks(_own_queries)),
        Symptom("wrong output", "o is wrong: start from zeros and lse = −inf, and merge in, for each step, the rows and "
                                "keys that see each other.", _part("o")),
        Symptom("wrong dq", "o is right, dq is not: sum attend_backward's dq over all steps, with the merged o and lse.",
                _part("dq")),
        Symptom("wrong dk", "o and dq are right, dk is not: add each step's dk to the part of the travelling gradient that "
                            "belongs to the keys used.", _part("dk")),
        Symptom("wrong dv", "o, dq and dk are right, dv is not.", _part("dv")),
        not_refused("Chunks r and 2n−1−r are as long as each other, so the rows of a rank must be even: raise a ValueError "
                    "that says how many there are, before anything is sent."),
    ),
    ),
)
