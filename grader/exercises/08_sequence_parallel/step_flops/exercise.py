"""FLOPs of a training step: those of the model, and those that the hardware does when it computes some of them again."""

from collections.abc import Callable, Sequence

from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.formula_cases import FORMULAS
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip

RECOMPUTE = ("none", "selective", "full")
CORE = ("scores", "values")


def forward_flops(layers: int, s: int, b: int, h: int) -> dict[str, float]:
    """Of each matrix product in a forward pass of all layers: 2·rows·inner size·columns, over all heads and samples."""
    sizes = {"qkv": (h, 3 * h), "scores": (h, s), "values": (s, h), "out": (h, h), "up": (h, 4 * h), "down": (4 * h, h)}
    return {name: 2.0 * layers * b * s * inner * columns for name, (inner, columns) in sizes.items()}


def counted(layers: int, s: int, b: int, h: int, vocabulary: int, recompute: str) -> tuple[float, float]:
    """(model, hardware), product by product."""
    forward = forward_flops(layers, s, b, h)
    rerun = {"none": (), "selective": CORE, "full": tuple(forward)}[recompute]
    model = 3 * (sum(forward.values()) + 2.0 * b * s * h * vocabulary)
    return model, model + sum(forward[name] for name in rerun)


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(48, 2048, 4, 6144, 51200), (2, 5, 3, 8, 11)]
    sizes += [(draw.integer(3, 90), draw.integer(100, 3000), draw.integer(1, 9), 64 * draw.integer(2, 90),
               draw.integer(10**4, 10**5))]
    names = ("layers", "s", "b", "h", "vocabulary", "recompute")
    return [Case(f"{size[0]} layers, s {size[1]}, b {size[2]}, h {size[3]}, recompute {again}",
                 (dict(zip(names, (*size, again), strict=True)),)) for size in sizes for again in RECOMPUTE]


def _slip(id: str, hint: str, wrong: Callable[[Case, float, float], tuple[float, float]]) -> Slip:
    """Found is wrong(case, model, again): from the model's FLOPs, and from what the hardware runs again."""
    return Slip(id, hint, lambda case, rank, right: wrong(case, right[0][0], right[0][1] - right[0][0]))


def _core(case: Case) -> float:
    """One forward pass of all layers' attention cores."""
    layers, s, b, h = (case.inputs[0][name] for name in ("layers", "s", "b", "h"))
    return sum(forward_flops(layers, s, b, h)[name] for name in CORE)


def _head(case: Case) -> float:
    """One forward pass of the head."""
    s, b, h, vocabulary = (case.inputs[0][name] for name in ("s", "b", "h", "vocabulary"))
    return 2.0 * b * s * h * vocabulary


def _again(case: Case, *recomputed: str) -> bool:
    return case.inputs[0]["recompute"] in recomputed


def _without_core(share: float) -> Callable[[Case, float, float], tuple[float, float]]:
    """This share of the attention core is counted nowhere."""

    def wrong(case: Case, model: float, again: float) -> tuple[float, float]:
        missing = share * _core(case)
        model -= 3 * missing
        return model, model + (again - missing if _again(case, "selective", "full") else again)

    return wrong


def _weights(case: Case) -> float:
    """One forward pass of all layers' products with weights."""
    layers, s, b, h = (case.inputs[0][name] for name in ("layers", "s", "b", "h"))
    return sum(forward_flops(layers, s, b, h).values()) - _core(case)


def _weights_at_half(case: Case, model: float, again: float) -> tuple[float, float]:
    model -= 1.5 * _weights(case)
    return model, model + again - (_weights(case) / 2 if _again(case, "full") else 0)


def _core_of_b(case: Case, model: float, again: float) -> tuple[float, float]:
    """The attention core is counted b times."""
    more = (case.inputs[0]["b"] - 1) * _core(case)
    return model + 3 * more, model + 3 * more + again + (more if _again(case, "selective", "full") else 0)


def _heads(more_again: int) -> Callable[[Case, float, float], tuple[float, float]]:
    """A head in every layer; more_again: whether it runs again, too."""

    def wrong(case: Case, model: float, again: float) -> tuple[float, float]:
        layers, head = case.inputs[0]["layers"], _head(case)
        model += 3 * (layers - 1) * head
        return model, model + again + (more_again * layers * head if _again(case, "full") else 0)

    return wrong


EXERCISE = Exercise(
    title="FLOPs of the model, FLOPs of the hardware",
    forbidden=FORMULAS,
    parameters=("layers", "s", "b", "h", "vocabulary", "recompute"),
    make_cases=_cases,
    oracle=each_rank(lambda case, rank: counted(**case.inputs[rank])),
    tolerance=1e-9,
    points={VALUES: 2},
    slips=(
        _slip("forward only", "That is a forward pass: the backward pass costs two more of each product, one for the "
                              "input's gradient and one for the weight's (or the other factor's).",
              lambda case, model, again: (model / 3, model / 3 + again)),
        _slip("multiplications only", "Exactly half: a multiplication and an addition are two operations.",
              lambda case, model, again: (model / 2, (model + again) / 2)),
        _slip("logits forgotten", "The head is missing: 2bshV in forward, three times that in a step.",
              lambda case, model, again: (model - 3 * _head(case), model - 3 * _head(case) + again)),
        _slip("causal halving", "The attention is counted at half: the papers count all s² scores of a layer, masked or "
                                "not, and MFU is compared on that count.", _without_core(0.5)),
        _slip("attention forgotten", "The products of attention itself are missing: QKᵀ and the weights times V, 2bs²h "
                                     "each in a layer's forward pass.", _without_core(1.0)),
        _slip("recompute forgotten", "The hardware runs more than the model needs: full recomputation adds a forward pass "
                                     "of the layers, selective one of QKᵀ and of the weights times V.",
              lambda case, model, again: (model, model)),
        _slip("recomputed twice", "What is computed again is counted twice: it is one more forward pass.",
              lambda case, model, again: (model, model + 2 * again)),
        _slip("logits forward only", "The head is trained as well: its backward pass costs twice its forward pass, as "
                                     "that of every product.",
              lambda case, model, again: (model - 2 * _head(case), model - 2 * _head(case) + again)),
        *(_slip("logits of every layer", "The head is there once, after the last layer: it is not multiplied by the layers.",
                _heads(more_again)) for more_again in (0, 1)),
        _slip("backward once", "A backward pass costs two forward passes, not one: for each product the gradient of its "
                               "input, and the gradient of its weight (or of the other factor).",
              lambda case, model, again: (model * 2 / 3, model * 2 / 3 + again)),
        _slip("weights at half", "The four weights make 24bsh² in a layer's forward pass: 3h, h, 4h and 4h columns or rows, "
                                 "two FLOPs for each number.", _weights_at_half),
        _slip("batch twice", "The attention core is counted once too often for the batch: 2bs²h for each of its two "
                             "products, all heads together.", _core_of_b),
        _slip("model runs again", "What is computed again is the hardware's only: the model needs the same FLOPs, however "
                                  "they are saved.", lambda case, model, again: (model + again, model + again)),
        _slip("only what runs again", "The second number is all that the hardware does: what the model needs, and what runs "
                                      "again besides.", lambda case, model, again: (model, again)),
        _slip("one layer again", "Every layer runs again, not one of them.",
              lambda case, model, again: (model, model + again / case.inputs[0]["layers"])),
        _slip("half of the core again", "Selective recomputation runs both of the core's products again, QKᵀ and the "
                                        "weights times V.",
              lambda case, model, again: (model, model + again - (again / 2 if _again(case, "selective") else 0))),
        _slip("full without the core", "Full recomputation runs all of a layer again, its attention core as well.",
              lambda case, model, again: (model, model + again - (_core(case) if _again(case, "full") else 0))),
        _slip("logits again", "The head is not computed again: it is not part of a layer.",
              lambda case, model, again: (model, model + again + (_head(case) if _again(case, "full") else 0))),
        _slip("a whole step again", "Selective recomputation runs the attention core's *forward* again, 4bs²h a layer; "
                                    "what you have is its forward and backward, as in the paper's equation. The next cell "
                                    "shows both.",
              lambda case, model, again: (model, model + again + (2 * again if _again(case, "selective") else 0))),
        _slip("model and hardware swapped", "The model's FLOPs come first, the hardware's second.",
              lambda case, model, again: (model + again, model)),
    ),
)
