"""How RowParallelLinear must be done, and how it can fail."""

from grader.calling.splitting import BACKWARD, FORWARD, SHARED
from grader.calling.weighing import END
from grader.evidence.evidence import RAISED
from grader.exercises.technique.linears import layer_fallbacks, layer_symptoms
from grader.exercises.technique.rank_by_rank import on_each_rank, the_mark
from grader.exercises.technique.splitting import (
    calls_are,
    linear_flops,
    refused_to_cut,
    share_only,
    sums_needed,
    work_divided,
)
from grader.exercises.technique.weights import shares, weighs_at_most
from grader.judging.demands import only_calls, results_waited
from grader.judging.exercise import Demand, Look, Symptom, Technique


def _outputs_cut(look: Look) -> bool:
    """own_part did not cut O elements, or the sum has more elements than the bias."""
    outputs, cut = len(look.case.inputs[look.working[0]]["linear"]["weight"]), refused_to_cut(look)
    said = look.evidence.ending == RAISED and "must match the size of tensor" in look.evidence.said
    return cut[0] == outputs if cut else said


def _shared(look: Look, rank: int) -> str:
    names = [] if look.refused else the_mark(look, rank, SHARED)["names"]
    return f"rank {rank}: {' and '.join(names)} in the memory of the whole weight" if names else ""


TECHNIQUE = Technique(
    demands=(
        sums_needed(lambda look, r: look.right[r]["y"].nbytes),
        only_calls("all_reduce"),
        calls_are(FORWARD, {"all_reduce": 1}),
        calls_are(BACKWARD, {}),
        *share_only(),
        Demand("not a copy", "the weight is a copy", on_each_rank(_shared)),
        *weighs_at_most({END: shares(2.6, lambda look, r: look.case.inputs[r]["linear"]["weight"].nbytes)}),  # and gradient
        work_divided(linear_flops("linear")),
        results_waited(),
    ),
    symptoms=layer_symptoms(Symptom("outputs cut", _outputs_cut)),
    fallbacks=layer_fallbacks(),
)
