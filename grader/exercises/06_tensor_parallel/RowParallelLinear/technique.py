"""How RowParallelLinear must be done, and how it can fail."""

from grader.calling.splitting import BACKWARD, FORWARD
from grader.exercises.technique.linears import layer_fallbacks, layer_symptoms
from grader.exercises.technique.splitting import calls_are, share_only
from grader.judging.demands import only_calls, results_waited
from grader.judging.exercise import Technique

TECHNIQUE = Technique(
    demands=(
        only_calls("all_reduce", hint=(
            "The one communication of this layer is g's all-reduce in forward: gathering inputs or products moves more.")),
        calls_are(FORWARD, {"all_reduce": 1}, "The result is right, but forward needs one all-reduce, g's."),
        calls_are(BACKWARD, {}, "The result is right, but backward communicates: dy is whole on every rank already."),
        *share_only(),
        results_waited(),
    ),
    symptoms=layer_symptoms("The sizes do not fit: this rank's x (…, I/n) needs the columns [r·I/n, (r+1)·I/n) of the "
                            "weight (O, I); the bias (O,) stays whole."),
    fallbacks=layer_fallbacks(
        "Input features",
        y="y is wrong: the sum over ranks of x_p W_pᵀ, plus the bias once.",
        dx="y is right, dx is not: dy W_p, without any sum.",
        gradients="y and dx are right, a parameter's gradient is not: autograd computes dW_p and db if y is made from the "
                  "parameters."),
)
