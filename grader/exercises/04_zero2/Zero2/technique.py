"""How Zero2 must work, and how it can fail."""

from grader.exercises.technique import zero
from grader.exercises.technique.models import reduced
from grader.exercises.technique.sharding import by_collectives, gathers_and_reductions
from grader.judging.demands import bytes_sent, only_calls
from grader.judging.exercise import Look
from grader.judging.symptoms import raised

STATE_TENSORS = {"AdamW": 2, "SGD": 1}  # of the parameter's size; SGD with momentum


def _sent(look: Look, rank: int) -> float:
    total, passes = zero.padded_bytes(look, rank), len(look.case.inputs[rank]["xs"])
    steps = passes // look.case.inputs[rank]["micro"]
    return gathers_and_reductions(look, rank, total, gathers=steps, reductions=passes) + zero.check_bytes(look, rank)


def _share(look: Look, rank: int) -> float:
    """State of one piece of each tensor."""
    n, of_each = look.case.group_size(rank), STATE_TENSORS[look.case.inputs[rank]["optimizer"]]
    return sum(of_each * -(-g.numel() // n) * g.itemsize + zero.STATE_SLACK_BYTES
               for g in reduced(look.case, rank).values())


TECHNIQUE = by_collectives(
    zero.something_sharded(),
    only_calls("reduce_scatter", "all_gather", "broadcast", hint=(
        "Reduce-scatter each gradient: an all-reduce brings every rank the whole of it, of which it uses one piece. The "
        "second half of the traffic is the all-gather of the updated parameters.")),
    zero.never_all_gradients(),
    zero.state_divided(_share, "The result is right, but ranks hold optimizer state for more than their shards: give "
                               "the optimizer one piece of each parameter."),
    bytes_sent(_sent, "k reduce-scatters and one all-gather of Ψ a step",
               "Right, but more was sent: parameters are gathered once a step, gradients reduced once a backward pass."),
    symptoms=(
        raised("attribute 'optimizer'", "A scheduler needs the optimizer that steps on the shards: keep it as "
                                        "self.optimizer.", "no optimizer"),
        zero.drifted("ranks drift apart", "The ranks' models differ from one another: every rank must gather all shards, in "
                                           "rank order, into p.data.", lambda parameters: parameters),
        zero.other_type(),
        zero.misfit(),
        zero.raised_any("no gradient", "A parameter that took no part has no gradient in this step: leave it, and its "
                                       "shard, alone.", "KeyError", "NoneType"),
        raised("zero_grad", "zero_grad() is missing: it forgets the gradient shards.", "no zero_grad"),
    ),
)
