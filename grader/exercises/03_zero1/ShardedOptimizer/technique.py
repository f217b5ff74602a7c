"""How ShardedOptimizer must work, and how it can fail."""

from collections.abc import Sequence

from grader.calling.weighing import END
from grader.evidence.evidence import RETURNED
from grader.exercises.technique import zero
from grader.exercises.technique.models import reduced
from grader.exercises.technique.rank_by_rank import on_each_rank, spans_if_any
from grader.exercises.technique.sharding import by_collectives
from grader.exercises.technique.training import instead
from grader.exercises.technique.weights import models, weighs_at_most
from grader.judging.demands import bytes_sent, only_calls
from grader.judging.exercise import Demand, Look, Symptom
from grader.judging.symptoms import deadlocked, raised
from utils.costs.formulas import bytes_sent_per_rank

from .call import STEP


def _balanced_share(look: Look, rank: int) -> float:
    """By whole tensors: an equal share and half the largest tensor's state, or that tensor's alone."""
    return _balanced(zero.whole_state(look, rank), look.case.group_size(rank)) + zero.STATE_SLACK_BYTES


def _balanced(sizes: Sequence[int], n: int) -> float:
    """No more than what one of n owners has of tensors of these sizes: a share and half the largest one, or that one."""
    largest = max(sizes, default=0)
    return max(largest, sum(sizes) / n + largest / 2)


def _sent(look: Look, rank: int) -> float:
    n, gradients = look.case.group_size(rank), list(reduced(look.case, rank).values())
    total = sum(gradient.nbytes for gradient in gradients)
    if look.evidence.trace.of(rank, "reduce_scatter"):  # of rows, one an owner and dtype, as long as the longest
        longest = _balanced([gradient.nbytes for gradient in gradients], n)
        dtypes = {gradient.dtype for gradient in gradients}
        total = sum(min(longest, sum(g.nbytes for g in gradients if g.dtype == dtype)) for dtype in dtypes) * n
    averaged = bytes_sent_per_rank("all_reduce", total, n)
    return len(look.case.inputs[rank]["xs"]) * averaged + zero.check_bytes(look, rank, times=3)


def _taken(look: Look, rank: int) -> str:
    return zero.wrongly_taken(look, rank) if look.case.inputs[rank]["model"] == "linear" else ""


def _old_plan(look: Look) -> bool:
    """The last step reduces no more than the one before it, in which a layer rested, and not all there is."""
    if look.evidence.ending != RETURNED or not zero.has_rests(look):
        return False
    steps = [([len(zero.reductions(look, rank, step)) for step in spans_if_any(look, rank, STEP)],
              len(look.right[rank]["parameters"])) for rank in look.working]
    return all(counts[-2:] == 2 * counts[-1:] and counts[-1:] < [n_parameters] for counts, n_parameters in steps)


OWN_DTYPES = zero.own_dtypes()
TECHNIQUE = by_collectives(
    zero.trained_needed(lambda look, r: len(look.case.inputs[r]["xs"]), "reduce_scatter", "all_gather"),
    zero.something_sharded(),
    zero.state_kept(),
    only_calls("reduce", "broadcast", "reduce_scatter", "all_gather"),
    zero.state_divided(_balanced_share),
    *weighs_at_most({END: models(2.1, each_share=3)}),  # with rows for all gradients, kept as DDP keeps buckets
    OWN_DTYPES,
    Demand("accepted", "parameters that differ between ranks, or none, are a ValueError", on_each_rank(_taken)),
    bytes_sent(_sent, "2(n−1)/n of the gradients' bytes a step"),
    symptoms=(
        zero.super_forgotten(),
        zero.group_demanded(),
        raised("NoneType", "no gradient"),
        Symptom("old plan", _old_plan, refuted=lambda look: not zero.has_rests(look)),
        zero.drifted("parameters not sent", lambda result: result["parameters"]),
        instead(OWN_DTYPES),
        raised("empty parameter list", "generator"),
        deadlocked("", "not all take part"),
    ),
)
