"""Demands on the memory of a rank's process, as it is read from outside in the one large case that is weighed."""

from collections.abc import Callable, Mapping

from grader.calling.weighing import BEGINNING
from grader.evidence.evidence import Weight
from grader.exercises.technique.models import model_seen
from grader.exercises.technique.rank_by_rank import on_each_rank
from grader.judging.demands import HIDDEN_DEMAND
from grader.judging.exercise import Demand, Look
from utils.trace.memory import tensors_in

SLACK_BYTES = 8 << 20  # what imports, threads and the allocator take meanwhile

Allowed = Callable[[Look, int], float]


def weighs_at_most(allowed: Mapping[str, Allowed]) -> tuple[Demand, Demand]:
    """At each of these moments a rank has, beside its inputs, at most so many bytes more than before the student's code.

    Where nobody weighs (in a student's notebook) this says nothing. The second is a gate: each rank stood still at the
    beginning, once, and at each of the moments, and what is too much is known to its meter.
    """

    def too_large(look: Look, rank: int) -> str:
        own = _weights(look, rank)
        return next((f"rank {rank}, {weight.moment}: its process had {weight.bytes - own[0].bytes:,} B more than at the "
                     f"beginning, allowed {limit:,.0f} B" for weight, limit in _too_heavy(look, rank, own, allowed)), "")

    def hidden(look: Look, rank: int) -> str:
        own = _weights(look, rank)
        moments = [weight.moment for weight in own]
        if look.case.weighed and look.evidence.weights is not None:
            if moments[:1] != [BEGINNING] or moments.count(BEGINNING) > 1:
                return f"rank {rank} was not weighed once {BEGINNING}"
            if missing := allowed.keys() - set(moments):
                return f"rank {rank} was not weighed {min(missing)}"
        for weight, _ in _too_heavy(look, rank, own, allowed):
            more, told = weight.bytes - own[0].bytes, weight.told_bytes - own[0].told_bytes
            if more > max(told, 0) + SLACK_BYTES:
                return f"rank {rank}, {weight.moment}: its process had {more:,} B more, of which its tensors are {told:,} B"
        return ""

    return (
        Demand("process too large", "each rank's process has the memory of its share only", on_each_rank(too_large),
               forbids=True),
        Demand(HIDDEN_DEMAND, "memory is held in tensors, none of it hidden", on_each_rank(hidden), gate=True))


def _weights(look: Look, rank: int) -> list[Weight]:
    """A rank's, in order; none where nobody weighs."""
    weights = look.evidence.weights if look.case.weighed else None
    return [weight for weight in weights or () if weight.rank == rank]


def _too_heavy(look: Look, rank: int, own: list[Weight], allowed: Mapping[str, Allowed]) -> list[tuple[Weight, float]]:
    inputs = sum(tensor.nbytes for tensor in tensors_in(list(look.case.inputs[rank].values()))) if own else 0
    limits = {moment: inputs + limit(look, rank) + SLACK_BYTES for moment, limit in allowed.items() if own}
    return [(weight, limits[weight.moment]) for weight in own
            if weight.moment in limits and weight.bytes - own[0].bytes > limits[weight.moment]]


def shares(times: float, whole: Callable[[Look, int], float]) -> Allowed:
    """So many times a rank's share of whole(look, rank) bytes."""
    return lambda look, rank: times * whole(look, rank) / look.case.group_size(rank)


def models(times: float, each_share: float = 0.0) -> Allowed:
    """So many times the bytes of the case's model, and so many times a rank's share of it."""

    def allowed(look: Look, rank: int) -> float:
        whole = sum(p.nbytes for p in model_seen(look.case, rank).parameters())
        return whole * (times + each_share / look.case.group_size(rank))

    return allowed
