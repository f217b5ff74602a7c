"""How ColumnParallelLinear must be done, and how it can fail."""

from grader.calling.splitting import BACKWARD, FORWARD
from grader.calling.weighing import END
from grader.exercises.technique.linears import layer_fallbacks, layer_symptoms
from grader.exercises.technique.splitting import (
    calls_are,
    linear_flops,
    share_only,
    sizes_differ,
    sums_needed,
    work_divided,
)
from grader.exercises.technique.weights import shares, weighs_at_most
from grader.judging.demands import only_calls, results_waited, tensor_bytes
from grader.judging.exercise import Look, Technique


def _wanted(look: Look, rank: int) -> dict[str, int]:
    return {"all_reduce": int(look.case.inputs[rank]["options"].get("copy", True))}


TECHNIQUE = Technique(
    demands=(
        sums_needed(lambda look, r: tensor_bytes(look, r) * _wanted(look, r)["all_reduce"]),
        only_calls("all_reduce", hint=(
            "The one communication of this layer is f's all-reduce in backward: its output stays in parts.")),
        calls_are(FORWARD, {}, "The result is right, but forward communicates: x is whole already."),
        calls_are(BACKWARD, _wanted,
                  "The result is right, but backward needs one all-reduce, f's, and none with copy=False."),
        *share_only(),
        *weighs_at_most({END: shares(2.6, lambda look, r: look.case.inputs[r]["linear"]["weight"].nbytes)}),  # and gradient
        work_divided(linear_flops("linear")),
        results_waited(),
    ),
    symptoms=layer_symptoms(
        "The sizes do not fit: x is whole (…, I), and this rank's outputs need the rows [r·O/n, (r+1)·O/n) of the weight "
        "(O, I): cut dim 0, the outputs.",
        sizes_differ("The bias does not fit the outputs: it goes with them, so keep the part [r·O/n, (r+1)·O/n) of it.",
                     "bias not cut", "expanded size", "size of tensor")),
    fallbacks=layer_fallbacks(
        "Output features",
        y="y is wrong: x W_pᵀ + b_p, with this rank's rows of the numbers that linear has.",
        dx="y is right, dx is not: the sum over ranks of dy_p W_p, by f.",
        gradients="y and dx are right, a parameter's gradient is not: autograd computes dW_p and db_p if y is made from the "
                  "parameters."),
)
