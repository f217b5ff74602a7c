"""What exercises about split layers demand, and how they fail: which calls, only a share held, bad sizes refused."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor
from torch.utils._pytree import tree_leaves

from grader.calling.splitting import HELD, KEPT_ALIVE, NO_PART, OWN_NUMBERS, WORK
from grader.evidence.evidence import DEADLOCKED, RAISED, RETURNED
from grader.exercises.technique.rank_by_rank import spans_called
from grader.judging.exercise import Demand, Look, Symptom
from grader.judging.needs import needs
from grader.judging.symptoms import raised
from utils.costs.formulas import bytes_sent_per_rank
from utils.trace.trace import Call

TOLERANCE = 1e-5  # of sums in another order, in float32 too; what bfloat16 gets is compare.ROUNDING's
HELD_SLACK_BYTES, KEPT_SLACK_BYTES = 256, 64
WORK_SLACK = 1.2

Count = Callable[[Look, int], int]


# ── what is sent ──


def calls_in(look: Look, rank: int, phase: str) -> list[Call]:
    """One rank's calls that began inside its span called `phase`, in order."""
    spans = spans_called(look, rank, phase)
    return [c for c in sorted(look.evidence.trace.of(rank), key=lambda call: call.number)
            if any(s.start_s <= c.start_s <= s.end_s for s in spans)]


def calls_are(phase: str, wanted: Mapping[str, int] | Callable[[Look, int], Mapping[str, int]], id: str = "") -> Demand:
    """In `phase` each rank makes these calls (operation → how many) and no others; alone in its group it may make none."""

    def judge(look: Look) -> tuple[bool, str]:
        for rank in _not_refused(look):
            right = wanted(look, rank) if callable(wanted) else wanted
            seen: dict[str, int] = {}
            for call in calls_in(look, rank, phase):
                seen[call.op] = seen.get(call.op, 0) + 1
            if seen != {op: count for op, count in right.items() if count} and (seen or look.case.group_size(rank) > 1):
                return False, f"rank {rank}, {phase}: {_counted(seen)}; wanted {_counted(right)}"
        return True, ""

    label = f"{phase}: {_counted(wanted)}" if not callable(wanted) else f"the right calls, {phase}"
    return Demand(id or f"{phase} calls", label, judge)


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {op}" for op, count in sorted(counts.items()) if count) or "no communication"


def all_reduces(phase: str, wanted: Count, nbytes: Count, id: str, label: str) -> Demand:
    """In one phase exactly wanted(look, rank) all-reduces of nbytes(look, rank), in groups of more than one rank."""

    def judge(look: Look) -> tuple[bool, str]:
        for rank in _not_refused(look):
            made = sum(call.bytes == nbytes(look, rank) for call in calls_in(look, rank, phase))
            if look.case.group_size(rank) > 1 and made != wanted(look, rank):
                return False, f"rank {rank} made {made}, wanted {wanted(look, rank)}"
        return True, ""

    return Demand(id, label, judge)


def sent_at_most(phase: str, limit: Callable[[Look, int], float], label: str, id: str) -> Demand:
    """In `phase` each rank sends at most limit(look, rank) bytes, by the ring formulas."""

    def judge(look: Look) -> tuple[bool, str]:
        for rank in _not_refused(look):
            sent, allowed = sum(c.bytes_formula for c in calls_in(look, rank, phase)), limit(look, rank)
            if sent > allowed + 1e-6:
                return False, f"rank {rank} sent {sent:,.0f} B {phase}, allowed {allowed:,.0f} B"
        return True, ""

    return Demand(id, label, judge)


def all_reduced(nbytes: Count) -> Callable[[Look, int], float]:
    """What a rank sends where nbytes(look, rank) bytes are all-reduced; nothing in a case that asks for a ValueError."""
    return lambda look, rank: bytes_sent_per_rank(
        "all_reduce", 0 if look.refused else nbytes(look, rank), look.case.group_size(rank))


def sums_needed(nbytes: Callable[[Look, int], float]) -> Demand:
    """nbytes(look, rank) bytes are summed over the ranks."""
    return needs(lambda look, rank: [("all_reduce", nbytes(look, rank))])


# ── what is held ──


def share_only() -> tuple[Demand, Demand, Demand]:
    """Each rank's parameters have no more numbers than the right gradients, and nothing whole stands behind them."""
    return (
        _marked_at_most("parameters not divided", "each rank's parameters are its share only", OWN_NUMBERS, "gradients"),
        _marked_at_most("whole weight kept", "the whole weights are not kept alive", HELD, "gradients",
                        slack=HELD_SLACK_BYTES),
        _marked_at_most("whole bias kept", "no parameter is a view of a whole one", KEPT_ALIVE, "gradients"))


def part_only(part: str) -> tuple[Demand, Demand, Demand]:
    """Each rank's parameters are no more than `part` of its right result, and keep no more alive; a hint for each. Nor does
    anything else."""
    return (
        _marked_at_most("parameters not divided", "each rank holds its part only", OWN_NUMBERS, part),
        _marked_at_most("whole weights kept alive", "no view of a whole weight", KEPT_ALIVE, part, slack=KEPT_SLACK_BYTES),
        _marked_at_most("whole weights kept", "nothing whole beside the parameters", HELD, part, slack=HELD_SLACK_BYTES))


def _marked_at_most(id: str, label: str, name: str, part: str, slack: int = 0) -> Demand:
    """A rank's marks called `name` say no more numbers, or bytes, than the tensors in `part` of its right result have."""
    fact, unit = ("count", "numbers") if name == OWN_NUMBERS else ("bytes", "B")

    def judge(look: Look) -> tuple[bool, str]:
        for rank in () if look.case.weighed else _not_refused(look):  # of the right results there are only some numbers
            most = max(mark.facts[fact] for mark in spans_called(look, rank, name))
            tensors = [tensor for tensor in tree_leaves(look.right[rank][part]) if tensor is not None]
            allowed = sum(tensor.numel() if fact == "count" else tensor.nbytes for tensor in tensors)
            if most > allowed + slack:
                return False, f"rank {rank}: {most:,} {unit}, its part is {allowed:,}"
        return True, ""

    return Demand(id, label, judge)


# ── what is computed ──


def work_divided(forward: Callable[[Look, int], list[float]]) -> Demand:
    """Gate: in each step a rank does an n-th of what one process would, forward and backward.

    forward: FLOPs of each step's whole forward pass. Backward takes twice as many: gradients of the input and of the
    weights.
    """

    def judge(look: Look) -> tuple[bool, str]:
        for rank in _not_refused(look):
            counts, steps = [span.facts["count"] for span in spans_called(look, rank, WORK)], forward(look, rank)
            if len(counts) != len(steps):
                return False, f"rank {rank}: the work of {len(counts)} steps was counted, of {len(steps)}"
            for count, whole in zip(counts, steps, strict=True):
                share = 3 * whole / look.case.group_size(rank)
                if count > WORK_SLACK * share:
                    return False, f"rank {rank} computed {count:,} FLOPs, its share is {share:,.0f}"
        return True, ""

    return Demand("work not divided", "each rank computes its share only", judge, gate=True, for_right_values=True)


def linear_flops(*names: str) -> Callable[[Look, int], list[float]]:
    """A forward pass through whole linear layers, the case's inputs of these names, for each row of x."""

    def flops(look: Look, rank: int) -> list[float]:
        inputs = look.case.inputs[rank]
        rows = inputs["x"].numel() // inputs["x"].shape[-1]
        return [sum(2.0 * rows * inputs[name]["weight"].numel() for name in names if inputs[name] is not None)]

    return flops


# ── sizes that do not divide ──


def _not_refused(look: Look) -> list[int]:
    """The working ranks of a case that asks for a result."""
    return [] if look.refused else look.working


def sizes_taken(id: str) -> Symptom:
    """A case whose sizes do not divide went on, or failed in another way."""
    return Symptom(id, lambda look: look.refused and look.evidence.ending != DEADLOCKED)


def refused_to_cut(look: Look) -> tuple[int, int] | None:
    """The size and the number of ranks of which own_slice (or own_part) said that they do not fit."""
    found = re.search(r"(\d+) [\w ]+ cannot be divided evenly among (\d+) ranks", look.evidence.said)
    return (int(found[1]), int(found[2])) if found and look.evidence.ending == RAISED and not look.refused else None


def sizes_differ(id: str, *said: str) -> Symptom:
    """torch says that sizes do not fit, in one of these words, if some are given; not where a ValueError is asked for."""
    words = said or ("shapes cannot be multiplied", "shape", "size of tensor", "expanded size", "size mismatch",
                     "input of size", "cannot be divided evenly", "Expected size for")
    return Symptom(id, lambda look: look.evidence.ending == RAISED and not look.refused
                   and any(text in look.evidence.said for text in words))


VIEWED = raised("view size is not compatible", "not contiguous")


# ── where a result first differs ──


def within_group() -> Demand:
    """Every call is on the rank's own group; for techniques whose result may be right all the same."""

    def judge(look: Look) -> tuple[bool, str]:
        for call in look.evidence.trace.calls:
            if call.members != look.case.members(call.rank):
                return False, f"rank {call.rank} called {call.op} on ranks {', '.join(map(str, call.members))}"
        return True, ""

    return Demand("other ranks called", "calls on its own group only", judge, forbids=True)


def part_missing() -> Symptom:
    """What was made has not the parts that it must have."""
    return raised(NO_PART, "part missing")


def other_dtype() -> Symptom:
    """A result of the right shape, but of another dtype; or torch says that dtypes do not fit."""
    said = ("same dtype", "different dtypes", "scalar type", "expected dtype", "same type")

    def matches(look: Look) -> bool:
        if look.evidence.ending != RETURNED:
            return any(text in look.evidence.said for text in said) or "dtype" in look.evidence.error_kind
        leaves = [(found, right) for _, *pair in look.pairs() for found, right in zip(*map(tree_leaves, pair), strict=True)]
        return any(isinstance(found, Tensor) and isinstance(right, Tensor) and found.shape == right.shape
                   and found.dtype != right.dtype for found, right in leaves)

    return Symptom("other dtype", matches)


def first_wrong(part: str, test: Callable[[Look, int, Any], bool] = lambda look, rank, found: True,
                ) -> Callable[[Look], bool]:
    """Of the parts of a result, in order, `part` is the first that is wrong on any rank, and test(look, rank, found part)
    holds where it is."""

    def matches(look: Look) -> bool:
        for name in look.right[look.working[0]]:
            wrong = [(rank, found[name]) for rank, found, right in look.pairs()
                     if not look.same(found[name], right[name])]
            if wrong:
                return name == part and all(test(look, *pair) for pair in wrong)
        return False

    return matches
