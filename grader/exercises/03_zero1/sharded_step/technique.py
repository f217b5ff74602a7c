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
    only_calls("reduce_scatter", "all_gather"),
    bytes_sent(_bytes, "2(n−1)/n of the flat buffer's bytes a step"),
    Demand("state elsewhere", "the given optimizer updates the shard", on_each_rank(_state_kept), gate=True,
           for_right_values=True),
    *weighs_at_most({END: _flat_and_shards}),
    symptoms=(raised("NoneType", "no output"), other_type()),
    fallbacks=(
        Symptom("parameters not gathered",
                wrong_ranks(lambda look, r, result, right: same(result["shard"], right["shard"]))),
    ),
)
