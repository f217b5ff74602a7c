"""What both kinds of split linear layer demand, and how they fail."""

from grader.exercises.technique.splitting import first_wrong, no_gradient, share_only, sizes_taken
from grader.judging.demands import results_waited
from grader.judging.exercise import Demand, Look, Symptom
from grader.judging.symptoms import group_ignored, raised, unwaited

OUT, IN = 0, 1  # the dim of the weight that is cut
PARTS = ("y", "dx", "gradients")


def layer_demands(dim: int) -> tuple[Demand, ...]:
    """Only a share is held, and everything is waited for."""

    def share(look: Look, rank: int) -> int:
        linear, n = look.case.inputs[rank]["linear"], look.case.group_size(rank)
        bias = 0 if linear["bias"] is None else linear["bias"].numel() // (n if dim == OUT else 1)
        return linear["weight"].numel() // n + bias

    return (*share_only(share, lambda look: look.case.inputs[0]["linear"]["weight"].itemsize), results_waited())


def layer_symptoms(shapes: str) -> tuple[Symptom, ...]:
    """shapes: what to say of sizes that do not fit."""
    return (
        group_ignored("The ranks of other groups are touched: give group to your f or g, and to own_part."),
        unwaited(),
        raised("same dtype", "The numbers have another dtype than the layer that was given: copy its own numbers, do not "
                             "make new ones.", "other dtype"),
        raised("shape", shapes, "shapes"),
        raised("size", shapes, "shapes"),
    )


def layer_fallbacks(features: str, y: str, dx: str, gradients: str) -> tuple[Symptom, ...]:
    """features: what is divided; the others: what to say where this part is the first that is wrong."""
    return (
        no_gradient("A parameter is not there: weight and bias (None where linear has none) must be nn.Parameters of those "
                    "names, made of plain numbers (detach)."),
        Symptom("wrong y", y, first_wrong("y", PARTS)),
        Symptom("wrong dx", dx, first_wrong("dx", PARTS)),
        Symptom("wrong gradients", gradients, first_wrong("gradients", PARTS)),
        sizes_taken("no error", not_divided(features)),
    )


def not_divided(features: str) -> str:
    """The hint for sizes that were taken without a word, or refused without their sizes."""
    return (f"{features} that n does not divide must be refused: raise a ValueError that names both sizes, before anything "
            "is cut.")
