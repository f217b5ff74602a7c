"""How ParallelDropout must be done: which masks agree, and which differ."""

import itertools
import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from grader.calling.splitting import MASK
from grader.exercises.technique.rank_by_rank import the_mark
from grader.judging.demands import only_calls
from grader.judging.exercise import Demand, Look, Symptom, Technique
from grader.judging.symptoms import wrong_ranks

DEVIATIONS = 6  # of a count of dropped numbers: chance alone goes beyond once in half a thousand million
ALIKE = 0.5  # a correlation that masks drawn by themselves are far from at every shift


def _drawn(look: Look, rank: int) -> dict[str, Any]:
    """What a rank marked: "calls", its masks as texts (1: dropped), "of_seeds", digests of small ones of other seeds, and
    "counts", how many elements these drop."""
    return the_mark(look, rank, MASK)


def _calls(look: Look, rank: int) -> list[str]:
    return _drawn(look, rank)["calls"]


def _numbers(mask: str) -> Tensor:
    return torch.tensor(list(mask.encode()), dtype=torch.float64) - ord("0")


def _likeness(a: Tensor, b: Tensor) -> Tensor:
    """How alike two masks are when one is shifted by 0, 1, 2, … places: 1 if equal, near 0 if drawn by themselves."""
    a, b = a - a.mean(), b - b.mean()
    length = a.norm() * b.norm()
    return torch.fft.irfft(torch.fft.rfft(a).conj() * torch.fft.rfft(b), len(a)) / length if length else 0 * a


def _groups(look: Look, split: bool) -> list[tuple[int, ...]]:
    return [members for members in dict.fromkeys(look.case.members(rank) for rank in look.working)
            if look.case.inputs[members[0]]["split"] == split]


def _pairs(look: Look) -> list[tuple[int, int]]:
    """Ranks that have different parts of one tensor."""
    return [pair for members in _groups(look, split=True) for pair in itertools.combinations(members, 2)]


def _same_where_replicated(look: Look) -> tuple[bool, str]:
    for members in _groups(look, split=False):
        for rank in members[1:]:
            if _calls(look, rank) != _calls(look, members[0]):
                return False, f"ranks {members[0]} and {rank} dropped different elements of one tensor"
    return True, ""


def _different_where_split(look: Look) -> tuple[bool, str]:
    for earlier, rank in _pairs(look):
        if any(map(operator.eq, _calls(look, rank), _calls(look, earlier))):
            return False, f"ranks {earlier} and {rank} dropped the same places of their parts"
    return True, ""


def _not_shifted(look: Look) -> tuple[bool, str]:
    for earlier, rank in _pairs(look):
        if _likeness(*(_numbers("".join(_calls(look, one))) for one in (earlier, rank))).max() > ALIKE:
            return False, f"rank {rank}'s masks are rank {earlier}'s, some places further on"
    return True, ""


def _each_number_drawn(look: Look) -> tuple[bool, str]:
    for rank in look.working:
        mask = _numbers(_calls(look, rank)[0])
        if _likeness(mask, mask)[1:].max() > ALIKE:
            return False, f"rank {rank}'s mask repeats itself"
    return True, ""


def _new_every_call(look: Look) -> tuple[bool, str]:
    for rank in look.working:
        calls = _calls(look, rank)
        if len(set(calls)) < len(calls):
            return False, f"rank {rank} drew {len(set(calls))} different masks in {len(calls)} calls"
    return True, ""


def _rate(look: Look) -> tuple[bool, str]:
    for rank in look.working:
        p, masks = look.case.inputs[rank]["p"], "".join(_calls(look, rank))
        size, dropped = len(masks), masks.count("1")
        if abs(dropped - p * size) > DEVIATIONS * math.sqrt(p * (1 - p) * size):
            return False, f"rank {rank} dropped {dropped / size:.1%}, wanted {p:.0%}"
    return True, ""


def _seed_counts(look: Look) -> tuple[bool, str]:
    for rank in look.working:
        if len({digests[0] for digests in _drawn(look, rank)["of_seeds"].values()}) == 1:
            return False, f"rank {rank} draws the same masks with every seed"
    return True, ""


def _no_collision(look: Look) -> tuple[bool, str]:
    """No mask of one seed and rank is one of another seed, nor where each rank has its part, of another rank."""
    alone = [members if split else members[:1] for split in (True, False) for members in _groups(look, split)]
    for members in alone:
        drawn: dict[str, tuple[str, int]] = {}
        for rank in members:
            for seed, digests in _drawn(look, rank)["of_seeds"].items():
                for digest in digests:
                    other_seed, other_rank = drawn.setdefault(digest, (seed, rank))
                    if (other_seed, other_rank) != (seed, rank):
                        return False, f"seed {other_seed} on rank {other_rank} drew what seed {seed} drew on rank {rank}"
    return True, ""


def _counts_vary(look: Look) -> tuple[bool, str]:
    """Of the masks of other seeds, hundreds, not all drop equally many elements."""
    for rank in look.working:
        drawn = _drawn(look, rank)
        if drawn["of_seeds"] and len(drawn["counts"]) == 1:
            return False, f"rank {rank} dropped {drawn['counts'][0]} elements in each of {2 * len(drawn['of_seeds'])} masks"
    return True, ""


def _gate(id: str, label: str, judge: Callable[[Look], tuple[bool, str]]) -> Demand:
    return Demand(id, label, judge, gate=True)


TECHNIQUE = Technique(
    demands=(
        only_calls(id="communicates"),
        _gate("one number for many", "a number is drawn for each element", _each_number_drawn),
        _gate("wrong rate", "the share p is dropped", _rate),
        _gate("same mask every call", "a new mask at every call", _new_every_call),
        _gate("masks differ where replicated", "one mask for all ranks where they hold the same tensor",
              _same_where_replicated),
        _gate("same mask where split", "another mask on every rank where each holds its part", _different_where_split),
        _gate("same mask, shifted", "masks that have nothing to do with each other", _not_shifted),
        Demand("seed ignored", "another seed draws other masks", _seed_counts),
        Demand("seeds collide", "other seed, other masks, on all ranks", _no_collision),
        _gate("an exact share", "each number by itself is dropped or not", _counts_vary),
    ),
    symptoms=(
        Symptom("dtype changed", wrong_ranks(lambda look, rank, found, right: found["dtype"] != right["dtype"])),
    ),
)
