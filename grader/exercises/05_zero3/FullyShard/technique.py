"""How FullyShard must be done, and how it can fail."""

import math
from collections.abc import Callable

from grader.calling.sharding import BACKWARD, COMPUTED_IN, FORWARD, dtype_of
from grader.calling.weighing import BETWEEN_PASSES, END
from grader.evidence.evidence import RETURNED
from grader.exercises.technique.models import model_seen, reduced
from grader.exercises.technique.sharding import (
    divided,
    first_wrong_is,
    gathers_and_reductions,
    layers_stand_at_most,
    spans_of,
)
from grader.exercises.technique.weights import models, weighs_at_most
from grader.judging.compare import same, same_at_first
from grader.judging.demands import bytes_sent, only_calls, results_waited
from grader.judging.exercise import Demand, Look, Symptom, Technique
from grader.judging.needs import needs
from grader.judging.symptoms import group_ignored, raised, unwaited, wrong_ranks
from utils.models.layers import layers_of

NOT_DIVIDED = ("A rank keeps whole parameters between the steps: every p.data, of frozen layers too, must be this rank's "
               "piece, so that the optimizer's state is divided as well.")
TOO_MANY_WHOLE = ("Too many layers are whole at once: free each one in a forward hook of its own, and prefetch no more than "
                  "the next one: in the order in which layers run, which need not be that of their registration.")
WHOLE_LAYERS = {FORWARD: 3, BACKWARD: 5}  # this one, the next one; on the way back their gradients too


def _whole_bytes(look: Look, rank: int, computing: bool = False) -> float:
    """All parameters, padded; in the compute dtype or in their own."""
    dtype = dtype_of(look.case.inputs[rank]["compute_dtype"]) if computing else None
    n = look.case.group_size(rank)
    return sum((p.numel() + n) * (dtype or p.dtype).itemsize for p in model_seen(look.case, rank).parameters())


def _needed(look: Look, rank: int) -> list[tuple[str, float]]:
    """In each step the parameters once, and the gradients."""
    inputs, trained = look.case.inputs[rank], reduced(look.case, rank)
    dtype, steps = dtype_of(inputs["compute_dtype"]), len(inputs["xs"]) // inputs["micro"]
    whole, gradients = (steps * sum(p.numel() * (dtype or p.dtype).itemsize for p in parameters)
                        for parameters in (model_seen(look.case, rank).parameters(), trained.values()))
    return [("all_gather", whole), ("reduce_scatter", gradients)]


def _gathered(look: Look, rank: int) -> float:
    """Both looks at the whole parameters, and each pass's gathers."""
    inputs = look.case.inputs[rank]
    times = len(inputs["xs"]) * (1 + inputs["wrapping"]["reshard_after_forward"]) + ("glance" in inputs)
    return (gathers_and_reductions(look, rank, _whole_bytes(look, rank), gathers=2, reductions=0)
            + gathers_and_reductions(look, rank, _whole_bytes(look, rank, computing=True), gathers=times, reductions=0))


def _sent(look: Look, rank: int) -> float:
    """The start, all gathers, and each pass's reductions."""
    n, inputs = look.case.group_size(rank), look.case.inputs[rank]
    own, computing = _whole_bytes(look, rank), _whole_bytes(look, rank, computing=True)
    buffers = sum(b.nbytes for b in model_seen(look.case, rank).buffers())
    reductions = gathers_and_reductions(look, rank, computing, gathers=0, reductions=len(inputs["xs"]))
    start = math.ceil(math.log2(n)) * (own + buffers)  # what the root of a tree sends
    return start + _gathered(look, rank) + reductions


def _sent_in_gathers(look: Look, rank: int) -> float:
    return sum(call.bytes_formula for call in look.evidence.trace.of(rank, "all_gather"))


def _gathered_too_often(look: Look) -> tuple[bool, str]:
    for rank in look.working:
        sent = _sent_in_gathers(look, rank)
        allowed = _gathered(look, rank)
        if sent > allowed and not look.case.inputs[rank]["wrapping"]["reshard_after_forward"]:
            return False, f"rank {rank} sent {sent:,.0f} B in all-gathers, allowed {allowed:,.0f} B"
    return True, ""


def _two_reductions(look: Look) -> tuple[bool, str]:
    for rank in look.working:
        calls = look.evidence.trace.of(rank, "reduce_scatter") if look.case.group_size(rank) > 1 else ()
        for number, call in enumerate(calls):
            begun = calls[:number + 1]
            under_way = sum(c.is_async and (c.wait_start_s is None or c.wait_start_s > call.start_s) for c in begun)
            if under_way > 2:
                return False, f"rank {rank}: {under_way} reduce-scatters begun and not waited for"
    return True, ""


def _in_start(test: Callable[[dict, dict], bool]) -> Callable[[Look], bool]:
    """Whether test(found, right) holds of the first full_parameters() on every rank whose result is wrong."""
    return wrong_ranks(lambda look, rank, found, right: test(found["start"], right["start"]))


_buffers_rounded = wrong_ranks(lambda look, rank, found, right: same_at_first(found["buffers"], right["buffers"]))


def _incomplete(look: Look, rank: int) -> set[str]:
    """The trained parameters of layers in which another one gets no gradient, being frozen or not used."""
    model, with_gradient = model_seen(look.case, rank), reduced(look.case, rank)
    names = {p: name for name, p in model.named_parameters()}
    layers = [{names[p] for p in of_layer} for _, of_layer in layers_of(model)]
    return {name for layer in layers if not layer <= with_gradient.keys() for name in layer & with_gradient.keys()}


def _incomplete_lost(look: Look) -> bool:
    """Whether those alone are what they were at the start."""
    if look.evidence.ending != RETURNED:
        return False
    for rank, found, right in look.pairs():
        names = _incomplete(look, rank)
        kept = {name for name, start in right["start"].items() if same(found["parameters"][name], start)}
        if not names or not names <= kept or not reduced(look.case, rank).keys() - kept:
            return False
    return True


def _kept_from_before(look: Look) -> bool:
    """Where a layer was skipped before the first update, only parameters that have a gradient are wrong in the end."""
    if "glance" not in look.case.inputs[0] or not first_wrong_is("parameters")(look):
        return False
    wrong = {name for rank, found, right in look.pairs() for name, p in right["parameters"].items()
             if not same(found["parameters"].get(name), p)}
    return wrong <= reduced(look.case, look.working[0]).keys()


def _never_freed(look: Look) -> bool:
    """The same, and hardly more than half was gathered of what it takes where each layer is freed after forward."""
    several = [rank for rank in look.working if look.case.group_size(rank) > 1]
    return _kept_from_before(look) and all(_sent_in_gathers(look, rank) < 0.6 * _gathered(look, rank) for rank in several)


def _computed(look: Look) -> tuple[bool, str]:
    for rank in look.working:
        wanted = f"torch.{look.case.inputs[rank]['compute_dtype'] or 'float64'}"
        for output in spans_of(look, rank, COMPUTED_IN):
            if output.facts["dtype"] != wanted:
                return False, f"rank {rank} computed in {output.facts['dtype']}, wanted {wanted}"
    return True, ""


TECHNIQUE = Technique(
    demands=(
        needs(_needed),
        only_calls("all_gather", "reduce_scatter", "broadcast", hint=(
            "All-gather parameters, reduce-scatter gradients (and broadcast the start): those are all the communication. An "
            "all-reduce brings every rank whole gradients.")),
        Demand("parameters not divided", "between steps each rank holds its shard only",
               NOT_DIVIDED, divided),
        layers_stand_at_most(FORWARD, WHOLE_LAYERS[FORWARD], TOO_MANY_WHOLE),
        layers_stand_at_most(BACKWARD, WHOLE_LAYERS[BACKWARD], (
            "The result is right, but layers or their gradients pile up during the backward pass: as soon as a layer's last "
            "gradient is there, reduce them and free the layer; wait for that reduction when the next one starts. What is "
            "prefetched there must be the layer that backward needs next, the one before.")),
        *weighs_at_most(dict.fromkeys((BETWEEN_PASSES, END), models(1.2, each_share=1))),  # with the whole ones at the start
        Demand("reductions pile up", "never more than two reductions under way", (
            "Reductions pile up, and each one under way keeps a row of whole gradients: finish() the last one when the next "
            "layer starts its own, so that never more than two are under way."), _two_reductions, forbids=True),
        Demand("computed in another dtype", "the module computes in compute_dtype",
               "The module must compute in compute_dtype: gather its parameters in it, and cast what goes into a layer.",
               _computed),
        Demand("gathered too often", "one all-gather a pass where layers are kept after forward",
               "Layers are gathered twice a pass although reshard_after_forward is False: then they stay whole from forward "
               "until their gradients are reduced.", _gathered_too_often, forbids=True),
        bytes_sent(_sent, "3Ψ a pass (2Ψ where layers are kept after forward)",
                   "Right, but too much was sent: each layer is gathered once in forward, once in backward, and reduced "
                   "once a pass, all in the compute dtype."),
        results_waited(),
    ),
    symptoms=(
        Symptom("parameters not divided", NOT_DIVIDED, lambda look: not divided(look)[0]),
        raised("storage of size 0", "Backward found a layer that was freed: gather it again before its backward (a hook on "
               "its output), and free it only when nothing of it is needed any more, its frozen weights neither.",
               "freed too early"),
        Symptom("outputs without hooks", "Backward found the pieces of a layer, which was not gathered again: register a "
                                         "hook on each tensor that it returns, in tuples and dictionaries too (tensors_in).",
                lambda look: "non-singleton dimension" in look.evidence.error and ", line " not in look.evidence.error),
        raised("required positional argument", "forward passes everything on to the module: *args and **kwargs.",
               "keywords dropped"),
        raised("got Float and Double", "The arguments were cast, the parameters were not: layers must be gathered in "
               "compute_dtype too.", "parameters not cast"),
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
        Symptom("incomplete layers", "Parameters that share a layer with a frozen or an unused one are never trained: that "
                                     "layer waits for a gradient which never comes. finish_gradient_synchronization() must "
                                     "reduce every layer that is still whole, not only free it.", _incomplete_lost),
        Symptom(f"whole layers in {FORWARD}", TOO_MANY_WHOLE, _never_freed),
        Symptom("kept from a pass before", "Right until a pass skips a layer: what was prefetched for it stays, and after "
                                           "an update it is out of date. When forward has ended, free what was started and "
                                           "not used (free() waits for it first).", _kept_from_before),
        Symptom("later parameters wrong", "The start is right, the parameters after training are not: every gradient must "
                                          "be the mean over ranks, and those of several passes add up.",
                first_wrong_is("parameters")),
    ),
)
