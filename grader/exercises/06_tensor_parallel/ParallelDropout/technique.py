"""How ParallelDropout must be done: which masks agree, and which differ."""

import math

from grader.calling.splitting import MASK
from grader.judging.demands import only_calls
from grader.judging.exercise import Demand, Look, Technique
from utils.trace.trace import Span

DEVIATIONS = 6  # of a count of dropped numbers: chance alone goes beyond once in half a thousand million


def _masks(look: Look, rank: int, module: str = "this") -> list[Span]:
    marks = [s for s in look.evidence.trace.spans if s.rank == rank and s.name == MASK and s.facts["module"] == module]
    return sorted(marks, key=lambda mark: mark.facts["call"])


def _digests(look: Look, rank: int, module: str = "this") -> list[str]:
    return [mark.facts["digest"] for mark in _masks(look, rank, module)]


def _groups(look: Look, split: bool) -> list[tuple[int, ...]]:
    return [members for members in dict.fromkeys(look.case.members(rank) for rank in look.working)
            if look.case.inputs[members[0]]["split"] == split]


def _same_where_replicated(look: Look) -> tuple[bool, str]:
    for members in _groups(look, split=False):
        for rank in members[1:]:
            if _digests(look, rank) != _digests(look, members[0]):
                return False, f"ranks {members[0]} and {rank} dropped different numbers of one tensor"
    return True, ""


def _different_where_split(look: Look) -> tuple[bool, str]:
    for members in _groups(look, split=True):
        for number, rank in enumerate(members):
            for earlier in members[:number]:
                if set(_digests(look, rank)) & set(_digests(look, earlier)):
                    return False, f"ranks {earlier} and {rank} dropped the same places of their parts"
    return True, ""


def _new_every_call(look: Look) -> tuple[bool, str]:
    for rank in look.working:
        digests = _digests(look, rank)
        if len(set(digests)) < len(digests):
            return False, f"rank {rank} drew {len(set(digests))} different masks in {len(digests)} calls"
    return True, ""


def _rate(look: Look) -> tuple[bool, str]:
    for rank in look.working:
        p, marks = look.case.inputs[rank]["p"], _masks(look, rank)
        size, dropped = (sum(mark.facts[name] for mark in marks) for name in ("size", "dropped"))
        if abs(dropped - p * size) > DEVIATIONS * math.sqrt(p * (1 - p) * size):
            return False, f"rank {rank} dropped {dropped / size:.1%}, wanted {p:.0%}"
    return True, ""


def _no_collision(look: Look) -> tuple[bool, str]:
    for members in dict.fromkeys(look.case.members(rank) for rank in look.working):
        these = {digest: rank for rank in members for digest in _digests(look, rank)}
        for rank in members:
            for digest in _digests(look, rank, "other"):
                if digest in these:
                    return False, f"rank {rank} with the next seed drew what rank {these[digest]} drew with this one"
    return True, ""


TECHNIQUE = Technique(demands=(
    only_calls(id="communicates", hint="No message is needed: ranks that begin with the same seed draw the same numbers."),
    Demand("wrong rate", "the share p is dropped", "Not the share p is dropped: keep a number with probability 1 − p.",
           _rate, gate=True),
    Demand("same mask every call", "a new mask at every call",
           "Every call draws the same mask: the generator goes on from call to call, so seed it once, in __init__.",
           _new_every_call, gate=True),
    Demand("masks differ where replicated", "one mask for all ranks where they hold the same tensor",
           "split=False: all ranks hold the same tensor and must drop the same numbers, or their copies drift apart. Seed a "
           "generator of your own, alike on all ranks.", _same_where_replicated, gate=True),
    Demand("same mask where split", "another mask on every rank where each holds its part",
           "split=True: each rank holds another part of one tensor, so every rank needs another mask. Make the rank part of "
           "the seed.", _different_where_split, gate=True),
    Demand("seeds collide", "other seed, other masks, on all ranks",
           "The masks are right, but rank 1 with seed 5 draws what rank 0 draws with seed 6: seed + rank is the same "
           "number. Make a seed from both that no other pair gives, such as seed·(n + 1) + rank.", _no_collision),
))
