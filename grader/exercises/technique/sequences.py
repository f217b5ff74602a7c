"""Demands and symptoms that the exercises about shards of a sequence share."""

import math
from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.utils._pytree import tree_map_only

from grader.calling.sequences import BACKWARD, FORWARD, KEPT, NUMBERS
from grader.evidence.evidence import RETURNED
from grader.exercises.technique import sharding
from grader.exercises.technique.rank_by_rank import spans_called
from grader.exercises.technique.splitting import calls_in
from grader.judging.compare import same
from grader.judging.exercise import Demand, Look, Symptom
from grader.judging.symptoms import every_rank, group_ignored, raised, too_few_gradients, unwaited, wrong_ranks
from utils.models.shards import cut_dim

# ── symptoms ──

KEEP_IN_CTX = ("The ranks of other groups are touched: pass group=group to every call, and keep it in ctx for the backward "
               "pass.")


def function_symptoms(returned: str, ignored: str = KEEP_IN_CTX) -> tuple[Symptom, ...]:
    """Of an autograd function that communicates. returned: what backward has to return; ignored: what to say of groups."""
    return group_ignored(ignored), unwaited(), *gradient_symptoms(returned), *not_contiguous(), *other_numbers()


WRITTEN_OVER = ("y holds what a later call gave: it lies in memory that stays from call to call, and the next one writes "
                "over it. Make a new tensor in each call.")


def written_over() -> Symptom:
    """A second call wrote into what the first one had returned, and autograd noticed."""
    return raised("is a view and its base or another view of its base has been modified", WRITTEN_OVER, "written over")


def gradient_symptoms(returned: str) -> tuple[Symptom, ...]:
    """Of a backward that returns too few values, or values in other places."""
    misplaced = ("What backward returns stands in another place, or has another shape, than the argument of forward that it "
                 f"belongs to: {returned}, in this order.")
    return too_few_gradients(returned), *(raised(text, misplaced, "gradient in another place") for text in (
        "returned an invalid gradient", "returned a gradient different than None"))


def not_contiguous() -> tuple[Symptom, ...]:
    """A tensor was handed to a collective as it lay in memory."""
    hint = ("A gradient that autograd hands you, or x, need not be contiguous, and neither view nor a collective takes what "
            "is not: call .contiguous() first.")
    return tuple(raised(text, hint, "not contiguous")
                 for text in ("must be contiguous", "has to be contiguous", "view size is not compatible"))


def other_numbers() -> tuple[Symptom, ...]:
    """The right values, but not in the dtype, or not with the digits, that they came in."""

    def has_other_dtype(look: Look, rank: int, found: Any, expected: Any) -> bool:
        return same(_in_float64(found), _in_float64(expected), 1e-2) and not same(found, expected, 1e-2)

    def has_fewer_digits(look: Look, rank: int, found: Any, expected: Any) -> bool:
        return same(found, expected, 1e-5)

    return (Symptom("another dtype", "The values are right, but in another dtype: make every tensor in x's own, with "
                    "x.new_empty(...) or torch.empty_like(...), and a mask with x's dtype.", every_rank(has_other_dtype)),
            Symptom("fewer digits", "Right to seven digits only: numbers that came in float64 went through float32. Make "
                    "every tensor in x's own dtype, with x.new_empty(...) or torch.empty_like(...).",
                    every_rank(has_fewer_digits)))


def _in_float64(value: Any) -> Any:
    return tree_map_only(Tensor, Tensor.double, value)


def cut_weights_summed() -> Symptom:
    """Of all gradients those of cut weights are wrong."""

    def matches(look: Look, rank: int, found: Any, expected: Any) -> bool:
        wrong = [name for name, right in expected["gradients"].items() if not same(found["gradients"][name], right)]
        return bool(wrong) and all(cut_dim(name) is not None for name in wrong)

    return Symptom("cut weights summed", "Only the gradients of the cut weights, qkv, up, out and down, are wrong: each "
                   "rank has rows or columns of its own there, and nobody else has a part of their gradient. Sum what is "
                   "replicated, nothing else.", wrong_ranks(matches))


def first_wrong_is(*parts: str) -> Callable[[Look], bool]:
    """Whether a result was returned, and what is first wrong of it is one of these parts."""
    return lambda look: look.evidence.ending == RETURNED and sharding.first_wrong_is(*parts)(look)


def first_wrong_has_its_shape(*parts: str) -> Callable[[Look], bool]:
    """Whether that part is moreover a tensor of the right shape on every rank, with other numbers."""

    def matches(look: Look) -> bool:
        part = sharding.first_wrong(look, look.right[look.working[0]])
        return first_wrong_is(*parts)(look) and all(found[part].shape == expected[part].shape
                                                    for _, found, expected in look.pairs())

    return matches


def not_refused(hint: str) -> Symptom:
    """Sizes that do not fit were to be refused, and were not, or not in words that name them."""
    return Symptom("not refused", hint, lambda look: look.refused)


# ── calls ──


def no_all_reduce_left(hint: str) -> Demand:
    """Gate: in forward and backward all-gathers and reduce-scatters are the only collectives."""
    allowed = ("all_gather", "reduce_scatter")

    def judge(look: Look) -> tuple[bool, str]:
        ranks = () if look.refused else look.working
        used = sorted({f"{c.op} in {phase}" for rank in ranks for phase in (FORWARD, BACKWARD)
                       for c in calls_in(look, rank, phase) if c.op not in allowed})
        return not used, ", ".join(used)

    return Demand("all-reduce left", f"only {' and '.join(allowed)} in {FORWARD} and {BACKWARD}", hint, judge, gate=True)


def whole_bytes(look: Look, rank: int) -> int:
    """Bytes of the tensor of which each member's x is a shard."""
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
        for rank in () if look.refused else look.working:
            allowed = limit(look, rank)
            for amount in facts(look, rank, name, fact):
                if amount > allowed:
                    return False, exceeded.format(rank=rank, amount=amount, allowed=allowed)
        return True, ""

    return judge


def kept_at_most(limit: Callable[[Look, int], float], label: str, hint: str) -> Demand:
    """Between forward and backward each rank of several holds at most limit(look, rank) bytes beyond inputs and result."""

    def limit_of_several(look: Look, rank: int) -> float:
        return limit(look, rank) if look.case.group_size(rank) > 1 else math.inf  # alone, a rank's shard is the whole

    return Demand("whole kept", label, hint, marked_at_most(
        limit_of_several, KEPT, "bytes", "rank {rank} kept {amount:,} B, allowed {allowed:,.0f} B"))


def numbers_at_most(limit: Callable[[Look, int], int]) -> Demand:
    """Each rank's parameters have at most limit(look, rank) numbers."""
    return Demand("weights not cut", "each rank holds its shard of qkv, out, up and down",
                  "The result is right, but ranks hold weights that they do not use: keep what cut_block gives only.",
                  marked_at_most(limit, NUMBERS, "count",
                                 "rank {rank} holds {amount:,} numbers, its share is {allowed:,}"))
