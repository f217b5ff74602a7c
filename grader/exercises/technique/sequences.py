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


def function_symptoms() -> tuple[Symptom, ...]:
    """Of an autograd function that communicates. returned: what backward has to return; ignored: what to say of groups."""
    return group_ignored(), unwaited(), *gradient_symptoms(), *not_contiguous(), *other_numbers()


def written_over() -> Symptom:
    """A second call, with −x, wrote into what the first one had returned: autograd noticed, or it holds −y."""
    noticed = raised("is a view and its base or another view of its base has been modified", "written over")
    negative = every_rank(lambda look, rank, found, expected: same(found["y"], -expected["y"]))
    return Symptom(noticed.id, lambda look: noticed.matches(look) or negative(look))


def gradient_symptoms() -> tuple[Symptom, ...]:
    """Of a backward that returns too few values, or values in other places."""
    return too_few_gradients(), *(raised(text, "gradient in another place") for text in (
        "returned an invalid gradient", "returned a gradient different than None"))


def not_contiguous() -> tuple[Symptom, ...]:
    """A tensor was handed to a collective as it lay in memory."""
    return tuple(raised(text, "not contiguous")
                 for text in ("must be contiguous", "has to be contiguous", "view size is not compatible"))


def other_numbers() -> tuple[Symptom, ...]:
    """The right values, but not in the dtype, or not with the digits, that they came in."""

    def has_other_dtype(look: Look, rank: int, found: Any, expected: Any) -> bool:
        return same(_in_float64(found), _in_float64(expected), 1e-2) and not same(found, expected, 1e-2)

    def has_fewer_digits(look: Look, rank: int, found: Any, expected: Any) -> bool:
        return same(found, expected, 1e-5)

    return (Symptom("another dtype", every_rank(has_other_dtype)),
            Symptom("fewer digits", every_rank(has_fewer_digits)))


def _in_float64(value: Any) -> Any:
    return tree_map_only(Tensor, Tensor.double, value)


def cut_weights_summed() -> Symptom:
    """Of all gradients those of cut weights are wrong."""

    def matches(look: Look, rank: int, found: Any, expected: Any) -> bool:
        wrong = [name for name, right in expected["gradients"].items() if not same(found["gradients"][name], right)]
        return bool(wrong) and all(cut_dim(name) is not None for name in wrong)

    return Symptom("cut weights summed", wrong_ranks(matches))


def first_wrong_is(*parts: str) -> Callable[[Look], bool]:
    """Whether a result was returned, and what is first wrong of it is one of these parts."""
    return lambda look: look.evidence.ending == RETURNED and sharding.first_wrong_is(*parts)(look)


def not_refused() -> Symptom:
    """Sizes that do not fit were to be refused, and were not, or not in words that name them."""
    return Symptom("not refused", lambda look: look.refused)


# ── calls ──


def no_all_reduce_left() -> Demand:
    """Gate: in forward and backward all-gathers and reduce-scatters are the only collectives."""
    allowed = ("all_gather", "reduce_scatter")

    def judge(look: Look) -> tuple[bool, str]:
        ranks = () if look.refused else look.working
        used = sorted({f"{c.op} in {phase}" for rank in ranks for phase in (FORWARD, BACKWARD)
                       for c in calls_in(look, rank, phase) if c.op not in allowed})
        return not used, ", ".join(used)

    return Demand("all-reduce left", f"only {' and '.join(allowed)} in {FORWARD} and {BACKWARD}", judge, gate=True)


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


def kept_at_most(limit: Callable[[Look, int], float], label: str) -> Demand:
    """Between forward and backward each rank of several holds at most limit(look, rank) bytes beyond inputs and result."""

    def limit_of_several(look: Look, rank: int) -> float:
        return limit(look, rank) if look.case.group_size(rank) > 1 else math.inf  # alone, a rank's shard is the whole

    return Demand("whole kept", label, marked_at_most(
        limit_of_several, KEPT, "bytes", "rank {rank} kept {amount:,} B, allowed {allowed:,.0f} B"))


def numbers_at_most(limit: Callable[[Look, int], int]) -> Demand:
    """Each rank's parameters have at most limit(look, rank) numbers."""
    return Demand("weights not cut", "each rank holds its shard of qkv, out, up and down",
                  marked_at_most(limit, NUMBERS, "count",
                                 "rank {rank} holds {amount:,} numbers, its share is {allowed:,}"))
