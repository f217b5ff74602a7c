"""ParallelDropout: equal masks where the ranks hold the same numbers, different ones where each holds its part."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from grader.calling.splitting_gpt import MASK
from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.judging.demands import only_calls
from grader.judging.exercise import Case, Demand, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import wrong_ranks
from utils.trace.trace import Span

STEPS = 3
DEVIATIONS = 6  # of a count of dropped numbers: chance alone goes beyond once in half a thousand million


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, split: bool, p: float = 0.3, dtype: str = "float32") -> list[dict[str, Any]]:
        shape = [draw.integer(3, 9), 11, 29]
        return [{"p": p, "seed": draw.integer(0, 999), "split": split, "steps": STEPS, "shape": shape, "dtype": dtype}] * n

    sizes = [(1, True, 0.5, "float32"), (2, False, 0.3, "float64"), (4, True, 0.1, "float32")]
    sizes += [(3, False, 0.2, "float32"), (3, True, 0.7, "float64")] * grading
    cases = [Case(f"{ranks(n)}, {'split' if split else 'replicated'}, p = {p}, {dtype}", tuple(inputs(n, split, p, dtype)))
             for n, split, p, dtype in sizes]
    return [*cases, group_case(lambda n: inputs(n, n == 3), "split and replicated")]


def _facts(case: Case, rank: int) -> dict[str, Any]:
    true = ("global random state as it was", "same masks with the same seed", "what is kept is scaled",
            "gradient through the same mask", "eval changes nothing")
    return dict.fromkeys(true, True) | {"dtype": f"torch.{case.inputs[rank]['dtype']}"}


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
            for other in members[:number]:
                if set(_digests(look, rank)) & set(_digests(look, other)):
                    return False, f"ranks {other} and {rank} dropped the same places of their parts"
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


def _only_wrong(name: str) -> Callable[[Look], bool]:
    return wrong_ranks(lambda look, r, found, expected: found[name] != expected[name])


EXERCISE = Exercise(
    title="Dropout, replicated and split",
    parameters=("p", "seed", "split", "group"),
    make_cases=_cases,
    oracle=each_rank(_facts),
    technique=Technique(
        demands=(
        only_calls(id="communicates", hint="No message is needed: ranks that begin with the same seed draw the same "
                                           "numbers."),
        Demand("wrong rate", "the share p is dropped", "Not the share p is dropped: keep a number with probability 1 − p.",
                _rate,
               gate=True),
        Demand("same mask every call", "a new mask at every call",
               "Every call draws the same mask: the generator goes on from call to call, so seed it once, in __init__.",
               _new_every_call, gate=True),
        Demand("masks differ where replicated", "one mask for all ranks where they hold the same tensor",
               "split=False: all ranks hold the same tensor and must drop the same numbers, or their copies drift apart. "
               "Seed a generator of your own, alike on all ranks.", _same_where_replicated, gate=True),
        Demand("same mask where split", "another mask on every rank where each holds its part",
               "split=True: each rank holds another part of one tensor, so every rank needs another mask. Make the rank "
               "part of the seed.", _different_where_split, gate=True),
        Demand("seeds collide", "other seed, other masks, on all ranks",
               "The masks are right, but rank 1 with seed 5 draws what rank 0 draws with seed 6: seed + rank is the same "
               "number. Make a seed from both that no other pair gives, such as seed·(n + 1) + rank.", _no_collision),
    ),
        symptoms=(
        Symptom("global state disturbed", "torch's global random state is another one afterwards, so whatever draws next "
                                          "on this rank changes: use a torch.Generator of your own.",
                _only_wrong("global random state as it was")),
        Symptom("not reproducible", "Two modules with one seed draw different masks: draw from your own generator only, "
                                    "which starts from the seed alone.", _only_wrong("same masks with the same seed")),
        Symptom("not scaled", "What is kept must be divided by 1 − p, so that the mean stays.", _only_wrong("what is kept "
                                                                                                            "is scaled")),
        Symptom("another mask in backward", "The gradient goes through another mask than the numbers went through: keep "
                                            "the mask of the forward pass (autograd does, if you multiply by it).",
                _only_wrong("gradient through the same mask")),
        Symptom("drops in eval", "In eval() nothing is dropped: ask self.training.", _only_wrong("eval changes nothing")),
        Symptom("dtype changed", "The result must have the dtype of x.", _only_wrong("dtype")),
    ),
    ),
)
