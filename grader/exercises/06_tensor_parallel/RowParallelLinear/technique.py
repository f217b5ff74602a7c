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
    said = look.evidence.ending == RAISED and "must match the size of tensor" in look.evidence.error
    return cut[0] == outputs if cut else said


def _shared(look: Look, rank: int) -> str:
    names = [] if look.refused else the_mark(look, rank, SHARED)["names"]
    return f"rank {rank}: {' and '.join(names)} in the memory of the whole weight" if names else ""


TECHNIQUE = Technique(
    demands=(
        sums_needed(lambda look, r: look.right[r]["y"].nbytes),
        only_calls("all_reduce", hint=(
            "The one communication of this layer is g's all-reduce in forward: gathering inputs or products moves more.")),
        calls_are(FORWARD, {"all_reduce": 1}, "The result is right, but forward needs one all-reduce, g's."),
        calls_are(BACKWARD, {}, "The result is right, but backward communicates: dy is whole on every rank already."),
        *share_only(),
        Demand("not a copy", "the weight is a copy", (
            "The result is right, but the weight lies in the memory of the layer that was given: to train one changes both "
            "of them. contiguous() copies only what is not contiguous, and a single rank's columns are: take clone()."),
            on_each_rank(_shared)),
        *weighs_at_most({END: shares(2.6, lambda look, r: look.case.inputs[r]["linear"]["weight"].nbytes)}),  # and gradient
        work_divided(linear_flops("linear")),
        results_waited(),
    ),
    symptoms=layer_symptoms(
        "The sizes do not fit: x is this rank's part already (…, I/n), and needs the columns [r·I/n, (r+1)·I/n) of the "
        "weight (O, I): cut dim 1, the inputs.",
        Symptom("outputs cut", "The outputs were cut, which are whole here: of the weight (O, I) cut dim 1, the inputs, and "
                               "keep all of the bias.", _outputs_cut)),
    fallbacks=layer_fallbacks(
        "Input features",
        y="y is wrong: the sum over ranks of x_p W_pᵀ, plus the bias once.",
        dx="y is right, dx is not: dy W_p, without any sum.",
        gradients="y and dx are right, a parameter's gradient is not: autograd computes dW_p and db if y is made from the "
                  "parameters."),
)
