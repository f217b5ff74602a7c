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

NOT_AT_REST = ("After loss.backward() every layer must be at rest again, its p.data and p.grad this rank's slices: when the "
               "last parameter of a layer has its gradient, call reduce(), which frees the layer, and finish().")
NOT_WHOLE = ("A layer computed with slices: its forward pre-hook must gather it, in each pass. Hooks made in a "
             "loop must each remember their own layer, not the loop's variable (functools.partial).")
TOO_SOON = ("A gradient came after its layer had been reduced: a layer's parameters get theirs one by one. Count them, or "
            "cross them off a set, and reduce when the last one is there; then begin anew for the next pass.")


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
    reduced, error = any(call.op == "reduce_scatter" for call in look.evidence.trace.calls), look.evidence.error
    return "must match the size of tensor" in error or (reduced and "storage of size 0" in error)


TECHNIQUE = by_collectives(
    gathered_and_reduced(_needed),
    only_calls("all_gather", "reduce_scatter", hint=(
        "All-gather the parameters, reduce-scatter the gradients: those two, which ShardedLayer calls, are all the "
        "communication.")),
    layers_stand_at_most(FORWARD, 2, (
        "The result is right, but layers stay whole in forward: a forward hook of each layer must free it as soon as it "
        "has computed.")),
    Demand("whole after forward", "after a forward pass alone, all layers are at rest", (
        "After a forward pass that no backward follows (torch.no_grad()) a layer is still whole: free each one, the last "
        "too, in its forward hook."), on_each_rank(_whole_after_forward)),
    Demand("not at rest", "between passes each rank holds its shards only", NOT_AT_REST, _at_rest),
    layers_stand_at_most(BACKWARD, 4, (
        "The result is right, but layers or their gradients pile up in backward: gather a layer when the gradient of its "
        "output comes by, and reduce it as soon as its last parameter has its gradient.")),
    Demand("not freed", "each layer is gathered twice in a pass", (
        "The result is right, but some layer stays whole after it has computed: free each one, the last too, in its forward "
        "hook, and gather it again before its backward."), on_each_rank(_kept_whole)),
    Demand("hooks do not wait", "no collective starts while another one is in flight", (
        "The result is right, but a hook leaves its collective in flight: here each hook waits, so a layer's reduce() is "
        "followed by its finish() at once."), on_each_rank(_left_under_way), forbids=True),
    *weighs_at_most({END: models(0.5, each_share=2)}),  # with the first step's gradients
    bytes_sent(_sent, "3(n−1)/n of the parameters a pass",
               "Right, but too much was sent: in each pass a layer is gathered once in forward and once in backward, and "
               "reduced once."),
    symptoms=(
        Symptom("reduced too soon", TOO_SOON, _reduced_too_soon),
        raised("storage of size 0", "Backward found a layer that was freed: register a hook on the layer's output, which "
               "gathers it again when the gradient comes by.", "not gathered again"),
        raised("must be a matrix", NOT_WHOLE, "not gathered"),
        Symptom("not at rest", NOT_AT_REST, lambda look: not _at_rest(look)[0]),
    ),
    fallbacks=(
        Symptom("one pair of two", "A module whose parameters have two dtypes comes twice in layers_of(module), with other "
                "parameters: each of these pairs is a ShardedLayer with hooks of its own. A dictionary with modules as its "
                "keys keeps only the last.", _two_typed, refuted=lambda look: not _two_typed(look)),
        Symptom("wrong gradients", "After the first step's backward passes p.grad is not this rank's slice of the mean "
                                   "gradient: is every layer reduced, once a pass, and finished?",
                first_wrong_is("gradients")),
        Symptom("later parameters wrong", "The first gradients are right, the parameters at the end are not: what the hooks "
                                          "remember of one pass must be forgotten before the next.",
                first_wrong_is("parameters")),
    ),
)
