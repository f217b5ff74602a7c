"""What the same layers send under tensor parallelism and in a pipeline: all-reduces in each layer, one array each way."""

from collections.abc import Sequence

from grader.exercises.shared.cases import ranks
from grader.exercises.shared.formula_cases import FORMULAS, pair, single
from grader.judging.exercise import VALUES, Case, Draw, Exercise
from utils.costs.formulas import bytes_sent_per_rank


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(1, 2048, 12288, 96, 8), (4, draw.integer(100, 900), 640, 9, 3), (1, 3, 5, 7, 7),  # no whole number of bytes
             (draw.integer(2, 9), 1000, 768, 12, 6), (8, 64, 64, 2, 2)]
    return [single(f"{b}×{t}×{d}, {layers} layers, {ranks(n)}", batch=b, length=t, dim=d, n_layers=layers, n_ranks=n)
            for b, t, d, layers, n in sizes]


def _oracle(case: Case) -> list[tuple[float, float]]:
    inputs = case.inputs[0]
    activations = 2.0 * inputs["batch"] * inputs["length"] * inputs["dim"]
    all_reduce = bytes_sent_per_rank("all_reduce", activations, inputs["n_ranks"])
    return [(4.0 * inputs["n_layers"] * all_reduce, 2.0 * activations)]  # there, and back


_LAYER = ("The first number is right but for a factor that layer_bytes has: does your layer_bytes count four all-reduces, "
          "2(n−1)/n of the array each and 2 bytes an element?")

EXERCISE = Exercise(
    title="Bytes of tensor and of pipeline parallelism",
    forbidden=FORMULAS,
    parameters=("batch", "length", "dim", "n_layers", "n_ranks"),
    make_cases=_cases,
    oracle=_oracle,
    tolerance=1e-6,
    points={VALUES: 2},
    slips=(
        pair("one way", lambda i, tp, pp: (tp, pp / 2),
             "The second number counts one direction: activations go forward, and their gradient comes back."),
        pair("four all-reduces at a border", lambda i, tp, pp: (tp, tp / i["n_layers"]),
             "The second number is an all-reduce's: nothing is summed at a border. The output of one layer is sent once, "
             "and its gradient once."),
        pair("sends in every layer", lambda i, tp, pp: (tp, pp * i["n_layers"]),
             "The second number grows with the layers: between layers of one stage nothing is sent."),
        pair("sends in every layer of a stage", lambda i, tp, pp: (tp, pp * i["n_layers"] / i["n_ranks"]),
             "The second number grows with the layers of a stage: between layers of one stage nothing is sent."),
        pair("all boundaries", lambda i, tp, pp: (tp, pp * (i["n_ranks"] - 1)),
             "The second number counts all n − 1 boundaries: one of them is asked for."),
        pair("border divided", lambda i, tp, pp: (tp, pp / i["n_ranks"]),
             "The second number is divided by n: a stage has the whole activations, and sends all of them."),
        pair("one layer", lambda i, tp, pp: (tp / i["n_layers"], pp),
             "The first number is one layer's: all n_layers layers are asked for."),
        pair("layers of a stage", lambda i, tp, pp: (tp / i["n_ranks"], pp),
             "The first number counts n_layers/n layers: under tensor parallelism every rank takes part in all of them."),
        pair("bytes of all ranks", lambda i, tp, pp: (tp * i["n_ranks"], pp),
             "The first number is what all ranks send together: one rank's is asked for."),
        pair("swapped", lambda i, tp, pp: (pp, tp), "The two have changed places: tensor parallelism comes first."),
        pair("four bytes", lambda i, tp, pp: (2 * tp, 2 * pp), "Both are twice too large: an element has 2 bytes."),
        pair("elements", lambda i, tp, pp: (tp / 2, pp / 2), "Both are half: an element has 2 bytes."),
        *(pair("layer miscounted", lambda i, tp, pp, factor=factor: (tp * factor, pp), _LAYER)
          for factor in (0.25, 0.5, 2.0)),
    ),
)
