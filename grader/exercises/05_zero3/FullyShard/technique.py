"""How FullyShard must be done, and how it can fail."""

from grader.calling.sharding import BACKWARD, COMPUTED_IN, FORWARD
from grader.calling.weighing import BETWEEN_PASSES, END
from grader.exercises.technique.fully_sharded import LIMITS, SENT, SYMPTOMS
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


_start_cast = wrong_ranks(lambda look, rank, found, right: any(
    found["start"][name].dtype != p.dtype for name, p in right["start"].items()))
_buffers_rounded = wrong_ranks(lambda look, rank, found, right: same_at_first(found["buffers"], right["buffers"]))


def _computed(look: Look) -> tuple[bool, str]:
    for rank in look.working:
        wanted = f"torch.{look.case.inputs[rank]['compute_dtype'] or 'float64'}"
        for output in spans_of(look, rank, COMPUTED_IN):
            if output.facts["dtype"] != wanted:
                return False, f"rank {rank} computed in {output.facts['dtype']}, wanted {wanted}"
    return True, ""


TECHNIQUE = Technique(
    call="fully_sharding:call_fully_sharded",
    demands=(
        *LIMITS,
        layers_stand_at_most(FORWARD, WHOLE_LAYERS[FORWARD]),
        layers_stand_at_most(BACKWARD, WHOLE_LAYERS[BACKWARD]),
        *weighs_at_most(dict.fromkeys((BETWEEN_PASSES, END), models(1.2, each_share=1))),  # with the whole ones at the start
        Demand("reductions pile up", "never more than two reductions in flight", _two_reductions, forbids=True),
        Demand("computed in another dtype", "the module computes in compute_dtype", _computed),
        *SENT,
    ),
    symptoms=(
        *SYMPTOMS,
        raised("required positional argument", "keywords dropped"),
        raised("storage of size 0", "freed too early"),
        raised("got Float and Double", "parameters not cast"),
        raised("same dtype", "inputs not cast"),
    ),
    fallbacks=(
        Symptom("start in another dtype", _start_cast),
        Symptom("buffers rounded", lambda look: first_wrong_is("buffers")(look) and _buffers_rounded(look)),
        Symptom("buffers not shared", first_wrong_is("buffers")),
        Symptom("later parameters wrong", first_wrong_is("parameters")),
    ),
)
