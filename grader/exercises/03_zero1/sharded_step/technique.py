"""How sharded_step must be done, and how it can fail."""

import torch
from torch import nn

from grader.calling.training import make_optimizer, state_bytes
from grader.calling.weighing import END
from grader.exercises.technique.rank_by_rank import on_each_rank, spans_called
from grader.exercises.technique.sharding import by_collectives, gathered_and_reduced, gathers_and_reductions
from grader.exercises.technique.weights import weighs_at_most
from grader.exercises.technique.zero import other_type
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, only_calls
from grader.judging.exercise import Demand, Look, Symptom
from grader.judging.symptoms import raised, wrong_ranks

from .call import STATE


def _bytes(look: Look, rank: int) -> float:
    inputs = look.case.inputs[rank]
    return len(inputs["gradients"]) * gathers_and_reductions(look, rank, inputs["flat"].nbytes)


def _flat_and_shards(look: Look, rank: int) -> float:
    """A copy of the parameters, and of a shard its numbers, its gradient and AMSGrad's state; room for a row."""
    return look.case.inputs[rank]["flat"].nbytes * (2 + 5 / look.case.group_size(rank))


def _state_kept(look: Look, rank: int) -> str:
    """The optimizer that was given holds the state of this rank's shard."""
    inputs = look.case.inputs[rank]
    shard = nn.Parameter(inputs["flat"].chunk(look.case.group_size(rank))[0].clone())
    optimizer, shard.grad = make_optimizer(inputs, [shard]), torch.zeros_like(shard)
    optimizer.step()
    held, wanted = max(seen.facts["bytes"] for seen in spans_called(look, rank, STATE)), state_bytes(optimizer)
    return f"the optimizer of rank {rank} holds {held:,} B of state, its shard's is {wanted:,} B" if held < wanted else ""


TECHNIQUE = by_collectives(
    gathered_and_reduced(lambda look, r: len(look.case.inputs[r]["gradients"]) * look.case.inputs[r]["flat"].nbytes),
    only_calls("reduce_scatter", "all_gather", hint=(
        "Reduce-scatter the gradients, all-gather the parameters: those two are all the communication. An all-reduce, of "
        "either, brings each rank what it does not need.")),
    bytes_sent(_bytes, "2(n−1)/n of the flat buffer's bytes a step",
               "Right, but more was sent than one reduce-scatter and one all-gather of Ψ elements: that is as much as "
               "data parallelism's all-reduce, and enough."),
    Demand("state elsewhere", "the given optimizer updates the shard", (
        "The result is right, but the optimizer that was given has no state: give shard_C.grad the mean, and let "
        "optimizer.step() do the update."), on_each_rank(_state_kept), gate=True, for_right_values=True),
    *weighs_at_most({END: _flat_and_shards}),
    group_hint="The ranks of other groups are touched: pass group=group to both calls.",
    symptoms=(
        raised("NoneType", "shard_C.grad is None until you give it a tensor (torch.empty_like(shard_C)); and the output "
                           "comes before the input: dist.reduce_scatter_single(output, input, group=group).", "no output"),
        other_type(),
    ),
    fallbacks=(
        Symptom("parameters not gathered", "Each rank's shard is updated, but flat_Z is not, or not all of it: all-gather "
                                           "the updated parameters into it, in place (flat_Z = … would be another tensor). "
                                           "Gathered gradients, as some notes have them, update nothing.",
                wrong_ranks(lambda look, r, result, right: same(result["shard"], right["shard"]))),
    ),
)
