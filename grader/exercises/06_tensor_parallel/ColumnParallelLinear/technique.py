"""How ColumnParallelLinear must be done, and how it can fail."""

from grader.calling.splitting import BACKWARD, FORWARD
from grader.calling.weighing import END
from grader.exercises.technique.linears import layer_fallbacks, layer_symptoms
from grader.exercises.technique.splitting import calls_are, linear_flops, share_only, sizes_differ, sums_needed, work_divided
from grader.exercises.technique.weights import shares, weighs_at_most
from grader.judging.demands import only_calls, results_waited, tensor_bytes
from grader.judging.exercise import Look, Technique


def _wanted(look: Look, rank: int) -> dict[str, int]:
    return {"all_reduce": int(look.case.inputs[rank]["options"].get("copy", True))}


TECHNIQUE = Technique(
    call="splitting:call_split_linear",
    demands=(
        sums_needed(lambda look, r: tensor_bytes(look, r) * _wanted(look, r)["all_reduce"]),
        only_calls("all_reduce"),
        calls_are(FORWARD, {}),
        calls_are(BACKWARD, _wanted),
        *share_only(),
        *weighs_at_most({END: shares(2.6, lambda look, r: look.case.inputs[r]["linear"]["weight"].nbytes)}),  # and gradient
        work_divided(linear_flops("linear")),
        results_waited(),
    ),
    symptoms=layer_symptoms(sizes_differ("bias not cut", "expanded size", "size of tensor")),
    fallbacks=layer_fallbacks(),
)
