"""Demands and symptoms that the exercises about pieces of a sequence share."""

import math
from collections.abc import Callable
from typing import Any

from grader.calling.rings import REFUSED
from grader.calling.sequences import BACKWARD, FORWARD, KEPT, NUMBERS
from grader.exercises.technique.rank_by_rank import spans_called
from grader.exercises.technique.splitting import calls_in
from grader.judging.exercise import Demand, Look, Symptom
from grader.judging.symptoms import group_ignored, too_few_gradients, unwaited

# ── symptoms ──

KEEP_IN_CTX = ("The ranks of other groups are touched: pass group=group to every call, and keep it in ctx for the backward "
               "pass.")


def function_symptoms(returned: str, ignored: str = KEEP_IN_CTX) -> tuple[Symptom, ...]:
    """Of an autograd function that communicates. returned: what backward has to return; ignored: what to say of groups."""
    return group_ignored(ignored), unwaited(), too_few_gradients(returned)


def not_refused(hint: str) -> Symptom:
    """Sizes that do not fit were to be refused, and were not, or not in words that name them."""
    return Symptom("not refused", hint, to_be_refused)


def to_be_refused(look: Look) -> bool:
    """Whether this case's sizes do not fit."""
    return any(name in right for right in look.right for name in ("refused", REFUSED))


# ── calls ──


def no_all_reduce_left(hint: str) -> Demand:
    """Gate: in forward and backward all-gathers and reduce-scatters are the only collectives."""
    allowed = ("all_gather", "reduce_scatter")

    def judge(look: Look) -> tuple[bool, str]:
        used = sorted({f"{c.op} in {phase}" for rank in look.working for phase in (FORWARD, BACKWARD)
                       for c in calls_in(look, rank, phase) if c.op not in allowed})
        return not used, ", ".join(used)

    return Demand("all-reduce left", f"only {' and '.join(allowed)} in {FORWARD} and {BACKWARD}", hint, judge, gate=True)


def whole_bytes(look: Look, rank: int) -> int:
    """Bytes of the tensor of which each member's x is a piece."""
    return sum(x.nbytes for x in look.case.peers_inputs(rank, "x"))


# ── what the ranks' marks say ──


def facts(look: Look, rank: int, name: str, fact: str) -> list[Any]:
    """What one rank's marks called `name` say."""
    return [mark.facts[fact] for mark in spans_called(look, rank, name)]


def marked_at_most(limit: Callable[[Look, int], float], name: str, fact: str, exceeded: str) -> Callable[[Look], tuple]:
    """A demand's judge: no rank's marks called `name` say more than limit(look, rank).

    exceeded: what to say else, of {rank}, the {amount} that is marked, and what is {allowed}.
    """

    def judge(look: Look) -> tuple[bool, str]:
        for rank in look.working:
            allowed = limit(look, rank)
            for amount in facts(look, rank, name, fact):
                if amount > allowed:
                    return False, exceeded.format(rank=rank, amount=amount, allowed=allowed)
        return True, ""

    return judge


def kept_at_most(limit: Callable[[Look, int], float], label: str, hint: str) -> Demand:
    """Between forward and backward each rank of several holds at most limit(look, rank) bytes beyond inputs and result."""

    def limit_of_several(look: Look, rank: int) -> float:
        return limit(look, rank) if look.case.group_size(rank) > 1 else math.inf  # alone, a rank's piece is the whole

    return Demand("whole kept", label, hint, marked_at_most(
        limit_of_several, KEPT, "bytes", "rank {rank} kept {amount:,} B, allowed {allowed:,.0f} B"))


def numbers_at_most(limit: Callable[[Look, int], int]) -> Demand:
    """Each rank's parameters have at most limit(look, rank) numbers."""
    return Demand("weights not cut", "each rank holds its shard of qkv, out, up and down",
                  "The result is right, but ranks hold weights that they do not use: keep what cut_block gives only.",
                  marked_at_most(limit, NUMBERS, "count",
                                 "rank {rank} holds {amount:,} numbers, its share is {allowed:,}"))
