"""Causal attention over a sequence in shards: keys and values pass round the ring, all ranks do the same work."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from grader.calling.sequences import leaf
from grader.evidence.case import WEIGHED
from grader.exercises.shared.cases import each_rank, group_case
from grader.exercises.shared.long_attention import TOLERANCE, another_o, inputs_of, named, sizes_fit, whole_attention
from grader.exercises.shared.sequence_inputs import wrong_from
from grader.exercises.shared.split_inputs import first_wrong_slip
from grader.judging.exercise import Case, Draw, Exercise, Slip
from utils.models.attention import cut_zigzag, join_zigzag


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(1, 2, 6, 3), (2, 3, 4, 5), (4, 2, 6, 5), (2, 1, 6, 3, torch.float32)]
    sizes += [(3, 1, 2 * draw.integer(2, 4), 4), (3, 2, 10, 3)] if grading else []
    cases = [Case(named(*size), tuple(inputs_of(draw, *size))) for size in sizes]
    odd = tuple(inputs | {"sizes": [5]} for inputs in inputs_of(draw, 2, 1, 5, 3))
    cases += [group_case(lambda n: inputs_of(draw, n, 2, 4, 3)), Case("an odd number of rows", odd)]
    alone = tuple(inputs | {"sizes": [3]} for inputs in inputs_of(draw, 1, 1, 3, 3))
    cases.append(Case("an odd number of rows, alone", alone))
    if grading:  # so many ranks that the others' keys are more than honest copies of one's own
        cases.append(Case("4 ranks, weighed", tuple(own | {WEIGHED: True} for own in inputs_of(draw, 4, 96, 4, 1024))))
    return cases


# ── what a rank sees of whom, right and wrong: (n, rank, source, rows) -> whose keys, whose values, the mask ──
# source: of whom a rank should have the keys and values; each step another one's, its own first.

Sees = Callable[[int, int, int, int], tuple[int, int, Tensor]]


def _seen_keys(n: int, r: int, source: int, rows: int) -> Tensor:
    """Which of source's keys each row of r sees, by positions in the whole sequence."""
    def positions(rank: int) -> Tensor:
        half = torch.arange(rows // 2)
        return torch.cat((half + rank * len(half), half + (2 * n - 1 - rank) * len(half)))

    return positions(r)[:, None] >= positions(source)


def _all_keys(rows: int) -> Tensor:
    return torch.ones(rows, rows, dtype=torch.bool)


def _right(n: int, r: int, source: int, rows: int) -> tuple[int, int, Tensor]:
    return source, source, _seen_keys(n, r, source, rows)


def _in_one_piece(n: int, r: int, source: int, rows: int) -> tuple[int, int, Tensor]:
    return source, source, _all_keys(rows).tril() if source == r else _all_keys(rows) & (source < r)


def _other_way(n: int, r: int, source: int, rows: int) -> tuple[int, int, Tensor]:
    as_far_behind = (2 * r - source) % n
    return as_far_behind, as_far_behind, _seen_keys(n, r, source, rows)


def _no_triangle(n: int, r: int, source: int, rows: int) -> tuple[int, int, Tensor]:
    return source, source, _all_keys(rows) if source == r else _seen_keys(n, r, source, rows)


def _earlier_ones_keys(late: bool) -> Sees:
    """Of an earlier rank all keys are taken, or only the late half."""

    def sees(n: int, r: int, source: int, rows: int) -> tuple[int, int, Tensor]:
        wrong = _all_keys(rows) & (torch.arange(rows) >= rows // 2 if late else True)
        return source, source, wrong if source < r else _seen_keys(n, r, source, rows)

    return sees


def _pass_by(sees: Sees, case: Case, rank: int, own: dict[str, Tensor] | None = None) -> Tensor:
    """o of one rank that sees this in each step; own: its q, k and v, if they are to have gradients."""
    n, r, own = case.group_size(rank), case.group_rank(rank), own or case.inputs[rank]
    ks, vs = ([own[name] if member == rank else case.inputs[member][name] for member in case.members(rank)]
              for name in "kv")
    steps = [sees(n, r, (r - step) % n, own["q"].shape[2]) for step in range(n)]
    scores = torch.cat([_scores(own["q"], ks[key], mask) for key, _, mask in steps], -1)
    return torch.softmax(scores, -1) @ torch.cat([vs[value] for _, value, _ in steps], 2)


BlockOf = Callable[[dict[str, Tensor], Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor, Tensor]]


def _dq(block_of: BlockOf, case: Case, rank: int, dq: Tensor) -> Tensor:
    """dq of a backward pass that takes block_of(own inputs, k, v, seen, lse) → (k, v, scores, lse) for each step's."""
    n, r, own = case.group_size(rank), case.group_rank(rank), case.inputs[rank]
    blocks = [(case.inputs[member]["k"], case.inputs[member]["v"], _seen_keys(n, r, source, own["q"].shape[2]))
              for source, member in enumerate(case.members(rank))]
    lse = torch.cat([_scores(own["q"], k, seen) for k, _, seen in blocks], -1).logsumexp(-1)
    row = (own["weights"] * _pass_by(_right, case, rank)).sum(-1, keepdim=True)
    total = torch.zeros_like(dq)
    for k, v, scores, lse_of_block in (block_of(own, *block, lse) for block in blocks):
        probabilities = (scores - lse_of_block[..., None]).exp().nan_to_num()  # a row that sees none adds nothing
        total += probabilities * (own["weights"] @ v.mT - row) * own["q"].shape[-1] ** -0.5 @ k
    return total


def _scores(q: Tensor, k: Tensor, seen: Tensor) -> Tensor:
    return (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(~seen, float("-inf"))


def _values_for_keys(own: dict[str, Tensor], k: Tensor, v: Tensor, seen: Tensor, lse: Tensor):
    return v, k, _scores(own["q"], v, seen), lse


def _with_own_sum(own: dict[str, Tensor], k: Tensor, v: Tensor, seen: Tensor, lse: Tensor):
    scores = _scores(own["q"], k, seen)
    return k, v, scores, scores.logsumexp(-1)


def _own_queries(case: Case, rank: int, dk: Tensor) -> Tensor:
    """dk and dv are what this rank's own queries alone contribute."""
    own = {name: leaf(case.inputs[rank][name]) for name in "qkv"}
    (_pass_by(_right, case, rank, own) * case.inputs[rank]["weights"]).sum().backward()
    return own["k"].grad


def _neighbours_gradients(shift: int, case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    members = case.members(rank)
    neighbour = members[(members.index(rank) + shift) % len(members)]
    return wrong_from(right[rank], "dk", right[neighbour]["dk"])


def _sees(id: str, hint: str, sees: Sees) -> Slip:
    return another_o(id, hint, partial(_pass_by, sees))


EXERCISE = Exercise(
    title="Ring attention, with the same work for all",
    parameters=("q_BHPK", "k_BHPK", "v_BHPK", "group"),
    make_cases=_cases,
    trains=True,
    measured=True,
    forbidden=("torch.distributed.tensor",),
    oracle=each_rank(lambda case, rank: whole_attention(case, rank, cut_zigzag, join_zigzag)),
    tolerance=TOLERANCE,
    points={"values": 4, "technique": 4},
    slips=(
        _sees("own part only", "Each rank attends to its own keys and nothing else: K and V of the others must come by, "
                               "and be merged.",
              lambda n, r, source, rows: (r, r, _seen_keys(n, r, r, rows) & (source == r))),
        _sees("mask by local index", "The causal mask compares positions inside the shards, but chunks of other ranks lie "
                                     "elsewhere in the sequence: compare global positions. The mask is triangular for a "
                                     "rank's own keys only.",
              lambda n, r, source, rows: (source, source, _all_keys(rows).tril())),
        _sees("no mask", "Every query sees all keys, later ones too.",
              lambda n, r, source, rows: (source, source, _all_keys(rows))),
        _sees("shards in one piece", "You treat rank r's shard as one stretch of the sequence. It is two chunks, r and "
                                     "2n−1−r: the second one lies after the chunks of later ranks too.", _in_one_piece),
        _sees("wrong way round", "The blocks are taken for another rank's: what goes to the next rank comes from the one "
                                 "before, so after `step` steps rank r has the keys of rank (r − step) mod n.", _other_way),
        _sees("own triangle forgotten", "Of the other ranks the right keys are seen, but each query sees all of its own "
              "rank's, later ones too: causal=True there.", _no_triangle),
        *(_sees("half of an earlier rank", "Of an earlier rank's two chunks only the first lies before your late one and "
                "your early one: all rows see its first half, none its second.", _earlier_ones_keys(late))
          for late in (True, False)),
        first_wrong_slip("dk and dv exchanged", "dK and dV have changed places: backward returns dq, dk, dv, None.", "dk",
                         lambda case, rank, dk: whole_attention(case, rank, cut_zigzag, join_zigzag)["dv"], sizes_fit),
        _sees("values not sent", "The keys travel, the values do not: each output mixes this rank's own V with the "
                                 "others' weights.",
              lambda n, r, source, rows: (source, r, _seen_keys(n, r, source, rows))),
        *(Slip("gradients left on the way", "dK and dV are right, but on the wrong rank: they travel with their K and V "
                                            "and need one more hop, n in all, to be home.",
               partial(_neighbours_gradients, shift), sizes_fit) for shift in (1, -1)),
        first_wrong_slip("keys for values in backward", "o is right. In backward keys and values have changed places: "
                         "attend_backward takes do, q, k, v, o, lse, and what travels must be taken apart as forward does.",
                         "dq", partial(_dq, _values_for_keys), sizes_fit),
        first_wrong_slip("each part's own sum", "o is right. In backward each part of the keys has a lse of its own: the "
                         "probabilities are those of the whole attention, so attend_backward needs the merged lse, which "
                         "forward saves.", "dq", partial(_dq, _with_own_sum),
                         lambda case: sizes_fit(case) and len(case.members(0)) > 1),
        first_wrong_slip("own queries only", "dK and dV hold only what this rank's own queries contribute: the queries of "
                         "all other ranks must add theirs while the gradients go round.", "dk", _own_queries, sizes_fit),
    ),
)
