"""How FullyShardOddModules must be done, and how it can fail."""

from grader.calling.sharding import FORWARD
from grader.evidence.evidence import RETURNED
from grader.exercises.technique.fully_sharded import LIMITS, SENT, SYMPTOMS, gathered, sent_in_gathers
from grader.exercises.technique.models import model_seen, reduced
from grader.exercises.technique.sharding import first_wrong_is, freed_after_forward
from grader.judging.compare import same
from grader.judging.exercise import Demand, Look, Symptom, Technique
from grader.judging.symptoms import raised
from utils.models.layers import layers_of


def _gathered_too_often(look: Look) -> tuple[bool, str]:
    for rank in look.working:
        sent = sent_in_gathers(look, rank)
        allowed = gathered(look, rank)
        if sent > allowed and not freed_after_forward(look.case.inputs[rank]):
            return False, f"rank {rank} sent {sent:,.0f} B in all-gathers, allowed {allowed:,.0f} B"
    return True, ""


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
    return _kept_from_before(look) and all(sent_in_gathers(look, rank) < 0.6 * gathered(look, rank) for rank in several)


TECHNIQUE = Technique(
    call="fully_sharding:call_fully_sharded",
    demands=(
        *LIMITS,
        Demand("gathered too often", "one all-gather a pass where layers are kept after forward", _gathered_too_often,
               forbids=True),
        *SENT,
    ),
    symptoms=(
        *SYMPTOMS,
        raised("storage of size 0", "freed too early"),
        Symptom("outputs without hooks",
                lambda look: "non-singleton dimension" in look.evidence.said and not look.evidence.lines),
        raised("require grad", "frozen hooked"),
    ),
    fallbacks=(
        Symptom("base not right", first_wrong_is("start", "digits kept", "buffers")),
        Symptom("incomplete layers", _incomplete_lost),
        Symptom(f"whole layers in {FORWARD}", _never_freed),
        Symptom("kept from a pass before", _kept_from_before),
        Symptom("later parameters wrong", first_wrong_is("parameters")),
    ),
)
