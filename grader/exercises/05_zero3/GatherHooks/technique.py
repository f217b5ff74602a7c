"""How GatherHooks must be done, and how it can fail."""

from itertools import pairwise

from grader.calling.sharding import BACKWARD, FORWARD, OWNED
from grader.calling.weighing import END
from grader.exercises.technique.models import model_seen
from grader.exercises.technique.rank_by_rank import not_seen, on_each_rank
from grader.exercises.technique.sharding import (
    by_collectives,
    divided,
    first_wrong_is,
    gathered_and_reduced,
    gathers_and_reductions,
    layers_stand_at_most,
    spans_of,
)
from grader.exercises.technique.weights import models, weighs_at_most
from grader.judging.demands import bytes_sent, only_calls
from grader.judging.exercise import Demand, Look, Symptom
from grader.judging.symptoms import raised


def _sent(look: Look, rank: int) -> float:
    """Every layer's padded row: gathered once without gradients, in each pass gathered twice and reduced once."""
    n, passes = look.case.group_size(rank), len(look.case.inputs[rank]["xs"])
    whole = sum((p.numel() + n) * p.dtype.itemsize for p in model_seen(look.case, rank).parameters())
    return gathers_and_reductions(look, rank, whole, gathers=1 + 2 * passes, reductions=passes)


def _needed(look: Look, rank: int) -> float:
    """In each step the whole parameters, and the whole gradients."""
    steps = len(look.case.inputs[rank]["xs"]) // look.case.inputs[rank]["micro"]
    return steps * sum(p.nbytes for p in model_seen(look.case, rank).parameters())


def _kept_whole(look: Look, rank: int) -> str:
    """Fewer bytes are gathered than in two gathers of every layer in each pass, and one in that without gradients."""
    n, passes = look.case.group_size(rank), len(look.case.inputs[rank]["xs"])
    wanted = (1 + 2 * passes) * sum(p.nbytes for p in model_seen(look.case, rank).parameters())
    gathered = n * sum(call.bytes_given for call in look.evidence.trace.of(rank, "all_gather"))
    return "" if n == 1 or gathered >= wanted else (
        f"rank {rank} gathered {gathered:,} B in {passes} passes and one without gradients, wanted {wanted:,} B")


def _at_rest(look: Look) -> tuple[bool, str]:
    for rank in look.working:
        if not all(owned.facts["flat"] for owned in spans_of(look, rank, OWNED)):
            return False, f"rank {rank} has a parameter in its whole shape between the passes"
    return divided(look)


def _whole_after_forward(look: Look, rank: int) -> str:
    """A rank at rest when wrapped is so after the pass without gradients: the second mark."""
    wrapped, evaluated = (spans_of(look, rank, OWNED) + 2 * [None])[:2]
    if evaluated is None:
        not_seen(rank, OWNED)
    whole = wrapped.facts["flat"] and not evaluated.facts["flat"]
    return f"rank {rank} has a parameter in its whole shape after a pass without gradients" if whole else ""


def _left_under_way(look: Look, rank: int) -> str:
    calls = sorted(look.evidence.trace.of(rank), key=lambda call: call.number)
    for one, following in pairwise(calls):
        if one.is_async and (one.wait_start_s is None or one.wait_start_s > following.start_s):
            return f"rank {rank}: {following.op} started while {one.op} was in flight"
    return ""


def _two_typed(look: Look) -> bool:
    return look.case.inputs[0]["model"] == "two typed"


def _reduced_too_soon(look: Look) -> bool:
    """A gradient finds a piece for its parameter, or a product inside the layer no weight where some layer was reduced."""
    reduced, error = any(call.op == "reduce_scatter" for call in look.evidence.trace.calls), look.evidence.said
    return "must match the size of tensor" in error or (reduced and "storage of size 0" in error)


TECHNIQUE = by_collectives(
    gathered_and_reduced(_needed),
    only_calls("all_gather", "reduce_scatter"),
    layers_stand_at_most(FORWARD, 2),
    Demand("whole after forward", "after a forward pass alone, all layers are at rest", on_each_rank(_whole_after_forward)),
    Demand("not at rest", "between passes each rank holds its shards only", _at_rest),
    layers_stand_at_most(BACKWARD, 4),
    Demand("not freed", "each layer is gathered twice in a pass", on_each_rank(_kept_whole)),
    Demand("hooks do not wait", "no collective starts while another one is in flight", on_each_rank(_left_under_way),
           forbids=True),
    *weighs_at_most({END: models(0.5, each_share=2)}),  # with the first step's gradients
    bytes_sent(_sent, "3(n−1)/n of the parameters a pass"),
    symptoms=(
        Symptom("one pair of two", _two_typed, refuted=lambda look: not _two_typed(look)),
        Symptom("reduced too soon", _reduced_too_soon),
        raised("storage of size 0", "not gathered again"),
        raised("must be a matrix", "not gathered"),
        Symptom("not at rest", lambda look: not _at_rest(look)[0]),
    ),
    fallbacks=(
        Symptom("wrong gradients", first_wrong_is("gradients")),
        Symptom("later parameters wrong", first_wrong_is("parameters")),
    ),
)
