"""How FullyShard must be done, and how it can fail."""

import math

from grader.calling.sharding import BACKWARD, COMPUTED_IN, FORWARD, OWNED, dtype_of
from grader.calling.zoo import DEEP_LAYERS, DEEP_WIDTH
from grader.exercises.technique.models import given_model
from grader.exercises.technique.sharding import first_wrong_is, gathers_and_reductions, held_at_most, spans_of
from grader.judging.demands import bytes_sent, only_calls, results_waited
from grader.judging.exercise import Demand, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, raised, unwaited

ROWS = 2  # of each rank's batch
LAYER_BYTES = 8 * DEEP_WIDTH * (DEEP_WIDTH + 1)
ACTIVATION_BYTES = 8 * ROWS * DEEP_WIDTH * 4 * DEEP_LAYERS  # twice what a layer keeps: its output and its tanh
WHOLE_LAYERS = {FORWARD: 3, BACKWARD: 5}  # this one, the next one; on the way back their gradients too


def _whole_bytes(look: Look, rank: int, computing: bool = False) -> float:
    """All parameters, padded; in the compute dtype or in their own."""
    dtype = dtype_of(look.case.inputs[rank]["compute_dtype"]) if computing else None
    n = look.case.group_size(rank)
    return sum((p.numel() + n) * (dtype or p.dtype).itemsize for p in given_model(look.case, rank).parameters())


def _sent(look: Look, rank: int) -> float:
    """The start, both looks at the whole parameters, and each pass's gathers and reductions."""
    n, inputs = look.case.group_size(rank), look.case.inputs[rank]
    own, computing = _whole_bytes(look, rank), _whole_bytes(look, rank, computing=True)
    buffers = sum(b.nbytes for b in given_model(look.case, rank).buffers())
    a_pass = gathers_and_reductions(look, rank, computing, gathers=1 + inputs["wrapping"]["reshard_after_forward"])
    start = math.ceil(math.log2(n)) * (own + buffers)  # what the root of a tree sends
    looks = gathers_and_reductions(look, rank, own, gathers=2, reductions=0)
    return start + looks + len(inputs["xs"]) * a_pass


def _divided(look: Look) -> tuple[bool, str]:
    for rank in look.working:
        parameters = list(given_model(look.case, rank).parameters())
        share = sum(p.numel() for p in parameters) // look.case.group_size(rank) + len(parameters)
        for owned in spans_of(look, rank, OWNED):
            if owned.facts["count"] > share:
                return False, f"rank {rank} holds {owned.facts['count']:,} numbers, its share is {share:,}"
    return True, ""


def _stands_at_most(phase: str, hint: str) -> Demand:
    """Of the deep model, freed after forward, no more than a few layers stand at once."""

    def allowed(look: Look, rank: int) -> float:
        inputs, n = look.case.inputs[rank], look.case.group_size(rank)
        if inputs["model"] != "deep" or n == 1 or not inputs["wrapping"]["reshard_after_forward"]:
            return math.inf
        shards = DEEP_LAYERS * LAYER_BYTES // n  # gradients, once they are there; AdamW's are older
        return WHOLE_LAYERS[phase] * LAYER_BYTES + ACTIVATION_BYTES + shards

    label = f"never more than {WHOLE_LAYERS[phase]} layers' numbers at once, {phase}"
    return held_at_most(f"whole layers in {phase}", [phase], allowed, label, hint)


def _computed(look: Look) -> tuple[bool, str]:
    for rank in look.working:
        wanted = f"torch.{look.case.inputs[rank]['compute_dtype'] or 'float64'}"
        for output in spans_of(look, rank, COMPUTED_IN):
            if output.facts["dtype"] != wanted:
                return False, f"rank {rank} computed in {output.facts['dtype']}, wanted {wanted}"
    return True, ""


TECHNIQUE = Technique(
    demands=(
        only_calls("all_gather", "reduce_scatter", "broadcast", hint=(
            "All-gather parameters, reduce-scatter gradients (and broadcast the start): those are all the communication. An "
            "all-reduce brings every rank whole gradients.")),
        Demand("parameters not divided", "between steps each rank holds its shard only",
               "The result is right, but every rank keeps whole parameters between the steps: p.data must be this rank's "
               "piece, so that the optimizer's state is divided too.", _divided),
        _stands_at_most(FORWARD, "The result is right, but layers stay whole after they were computed: free each one in a "
                                 "forward hook of its own."),
        _stands_at_most(BACKWARD, "The result is right, but layers or their gradients pile up during the backward pass: as "
                                  "soon as a layer's last gradient is there, reduce them and free the layer; wait for that "
                                  "reduction when the next one starts."),
        Demand("computed in another dtype", "the module computes in compute_dtype",
               "The module must compute in compute_dtype: gather its parameters in it, and cast what goes into a layer.",
               _computed),
        bytes_sent(_sent, "3Ψ a pass (2Ψ where layers are kept after forward)",
                   "Right, but too much was sent: each layer is gathered once in forward, once in backward, and reduced "
                   "once a pass, all in the compute dtype."),
        results_waited(),
    ),
    symptoms=(
        raised("storage of size 0", "Backward found a layer that was freed: gather it again before its backward (a hook on "
               "its output).", "freed too early"),
        group_ignored("The ranks of other groups are touched: pass group=group to every call, and group_src=0 to "
                      "broadcast."),
        unwaited(),
        raised("full_parameters", "full_parameters() is missing: a dictionary name → whole parameter, on every rank.",
               "no full_parameters"),
        raised("finish_gradient_synchronization", "finish_gradient_synchronization() is missing: it waits for what is still "
               "under way after backward.", "no finish"),
        raised("require grad", "A frozen parameter takes no hook: only those with requires_grad have a gradient.",
               "frozen hooked"),
        raised("same dtype", "What goes into a layer must have the compute dtype as well: cast the floating-point arguments "
               "in the forward pre-hook.", "inputs not cast"),
    ),
    fallbacks=(
        Symptom("later parameters wrong", "The start is right, the parameters after training are not: every gradient must "
                                          "be the mean over ranks, and those of several passes add up.",
                first_wrong_is("parameters")),
    ),
)
