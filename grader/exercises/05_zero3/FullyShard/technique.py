"""How FullyShard must be done, and how it can fail."""

from collections.abc import Callable

from grader.calling.sharding import BACKWARD, COMPUTED_IN, FORWARD
from grader.calling.weighing import BETWEEN_PASSES, END
from grader.exercises.technique.fully_sharded import LIMITS, SENT, SYMPTOMS, TOO_MANY_WHOLE
from grader.exercises.technique.sharding import first_wrong_is, layers_stand_at_most, spans_of
from grader.exercises.technique.weights import models, weighs_at_most
from grader.judging.compare import same_at_first
from grader.judging.exercise import Demand, Look, Symptom, Technique
from grader.judging.symptoms import raised, wrong_ranks

WHOLE_LAYERS = {FORWARD: 3, BACKWARD: 5}  # this one, the next one; on the way back their gradients too


def _two_reductions(look: Look) -> tuple[bool, str]:
    for rank in look.working:
        calls = look.evidence.trace.of(rank, "reduce_scatter") if look.case.group_size(rank) > 1 else ()
        for number, call in enumerate(calls):
            begun = calls[:number + 1]
            under_way = sum(c.is_async and (c.wait_start_s is None or c.wait_start_s > call.start_s) for c in begun)
            if under_way > 2:
                return False, f"rank {rank}: {under_way} reduce-scatters in flight"
    return True, ""


def _in_start(test: Callable[[dict, dict], bool]) -> Callable[[Look], bool]:
    """Whether test(found, right) holds of the first full_parameters() on every rank whose result is wrong."""
    return wrong_ranks(lambda look, rank, found, right: test(found["start"], right["start"]))


_buffers_rounded = wrong_ranks(lambda look, rank, found, right: same_at_first(found["buffers"], right["buffers"]))


def _computed(look: Look) -> tuple[bool, str]:
    for rank in look.working:
        wanted = f"torch.{look.case.inputs[rank]['compute_dtype'] or 'float64'}"
        for output in spans_of(look, rank, COMPUTED_IN):
            if output.facts["dtype"] != wanted:
                return False, f"rank {rank} computed in {output.facts['dtype']}, wanted {wanted}"
    return True, ""


TECHNIQUE = Technique(
    demands=(
        *LIMITS,
        layers_stand_at_most(FORWARD, WHOLE_LAYERS[FORWARD], TOO_MANY_WHOLE),
        layers_stand_at_most(BACKWARD, WHOLE_LAYERS[BACKWARD], (
            "The result is right, but layers or their gradients pile up during the backward pass: as soon as a layer's last "
            "gradient is there, reduce them and free the layer; wait for that reduction when the next one starts. What is "
            "prefetched there must be the layer that backward needs next, the one before.")),
        *weighs_at_most(dict.fromkeys((BETWEEN_PASSES, END), models(1.2, each_share=1))),  # with the whole ones at the start
        Demand("reductions pile up", "never more than two reductions in flight", (
            "Reductions pile up, and each one in flight keeps a buffer of whole gradients: finish() the last one when the "
            "next layer starts its own, so that never more than two are in flight."), _two_reductions, forbids=True),
        Demand("computed in another dtype", "the module computes in compute_dtype",
               "The module must compute in compute_dtype: gather its parameters in it, and cast what goes into a layer.",
               _computed),
        *SENT,
    ),
    symptoms=(
        *SYMPTOMS,
        raised("storage of size 0", "Backward found a layer that was freed: gather it again before its backward, by a hook "
               "on its output.", "freed too early"),
        raised("got Float and Double", "The arguments were cast, the parameters were not: layers must be gathered in "
               "compute_dtype too.", "parameters not cast"),
        raised("full_parameters", "full_parameters() is missing: a dictionary name → whole parameter, on every rank.",
               "no full_parameters"),
        raised("finish_gradient_synchronization", "finish_gradient_synchronization() is missing: it waits for what is still "
               "in flight after backward.", "no finish"),
        raised("same dtype", "What goes into a layer must have the compute dtype as well: cast the floating-point arguments "
               "in the forward pre-hook.", "inputs not cast"),
    ),
    fallbacks=(
        Symptom("other names", "full_parameters() has other keys than the module's names: module.named_parameters() has "
                               "the name of each.", _in_start(lambda found, right: found.keys() != right.keys())),
        Symptom("start in another dtype", "full_parameters() has another dtype: it gathers the shards as they are, not in "
                                          "compute_dtype.", _in_start(
                                              lambda found, right: any(found[k].dtype != right[k].dtype for k in right))),
        Symptom("buffers rounded", "The buffers are rank 0's in their first digits only: on the way they had another dtype. "
                                   "torch.cat makes floats of whole numbers; broadcast each tensor in its own dtype.",
                lambda look: first_wrong_is("buffers")(look) and _buffers_rounded(look)),
        Symptom("buffers not shared", "The parameters are those of rank 0, the buffers are not: broadcast "
                                      "module.buffers() as well.", first_wrong_is("buffers")),
        Symptom("later parameters wrong", "The start is right, the parameters after training are not: every gradient must "
                                          "be the mean over ranks, and those of several passes add up.",
                first_wrong_is("parameters")),
    ),
)
