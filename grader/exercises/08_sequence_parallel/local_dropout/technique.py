"""How local_dropout must be done, and how it can fail."""

from grader.calling.sequences import RANDOM_CHANGED
from grader.exercises.technique.sharding import first_wrong_is
from grader.judging.compare import same
from grader.judging.demands import only_calls
from grader.judging.exercise import Demand, Look, Symptom, Technique


def _random_state_kept(look: Look) -> tuple[bool, str]:
    changed = [s.rank for s in look.evidence.trace.spans if s.name == RANDOM_CHANGED]
    return not changed, f"rank {changed[0]}'s random state was changed" if changed else ""


TECHNIQUE = Technique(
    demands=(
        only_calls(id="communicates", hint="Every rank can compute its seed from its rank: no message is needed."),
        Demand("random state changed", "torch's own random state as it was",
               "The masks are right, but torch's own random state was changed, and with it every random number that comes "
               "after: draw from a torch.Generator of your own.", _random_state_kept),
    ),
    symptoms=(
        Symptom("mask redrawn", "Called twice with the same seed it gives two masks: a forward pass that is computed again, "
                                "as in recomputation, would not be the same one. Draw from a new generator with the seed.",
                lambda look: any(isinstance(result, dict) and not same(result["again"], result["y"])
                                 for _, result, _ in look.pairs())),
    ),
    fallbacks=(
        Symptom("no gradient", "The gradient of x is wrong or missing: multiply x by the mask, do not write into x.data.",
                first_wrong_is("dx")),
        Symptom("wrong result", "y is not x where torch.rand(x.shape, generator=…) ≥ p, divided by 1 − p, and 0 elsewhere.",
                first_wrong_is("y")),
    ),
)
