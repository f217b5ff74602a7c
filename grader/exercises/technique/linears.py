"""What the exercises on split linear layers have in common: the dims, and how such layers fail."""

from grader.exercises.technique.splitting import (
    VIEWED,
    first_wrong,
    other_dtype,
    part_missing,
    sizes_differ,
    sizes_taken,
)
from grader.judging.exercise import Symptom
from grader.judging.general import IN_GROUPS_ONLY
from grader.judging.symptoms import group_ignored, raised, unwaited, wrong_ranks

OUT, IN = 0, 1  # the dim of the weight that is cut
NO_BIAS = "linear.bias may be None: then self.bias is None as well, and nothing is added."
MISSING = ("A parameter is not there: weight and bias (None where linear has none) must be nn.Parameters of those names, "
           "made of plain numbers (detach).")


def layer_symptoms(shapes: str, *more: Symptom) -> tuple[Symptom, ...]:
    """shapes: what to say of sizes that do not fit, where none of `more` fits."""
    return (
        group_ignored("The ranks of other groups are touched: give group to your f or g, and to own_part."),
        IN_GROUPS_ONLY,
        unwaited(),
        other_dtype("The numbers have another dtype than the layer that was given: copy its own numbers, do not make new "
                    "ones."),
        part_missing("weight or bias is not there: the layer needs both, and bias is None where linear has none."),
        raised("'NoneType'", NO_BIAS, "bias taken for granted"),
        VIEWED,
        *more,
        sizes_differ(shapes, "shapes"),
    )


def layer_fallbacks(features: str, y: str, dx: str, gradients: str, missing: str = MISSING) -> tuple[Symptom, ...]:
    """features: what is divided; y, dx, gradients: what to say where this part is the first that is wrong; missing: where a
    parameter, or its gradient, is."""
    return (
        Symptom("no gradient", missing, wrong_ranks(lambda look, rank, found, right: any(
            found["gradients"].get(name) is None for name in right["gradients"]))),
        Symptom("more parameters", "There is a parameter that the whole layer does not have: where it has no bias, yours is "
                                   "None.", wrong_ranks(lambda look, rank, found, right: bool(
                                       found["gradients"].keys() - right["gradients"].keys()))),
        Symptom("wrong y", y, first_wrong("y")),
        Symptom("wrong dx", dx, first_wrong("dx")),
        Symptom("wrong gradients", gradients, first_wrong("gradients")),
        sizes_taken("no error", f"{features} that n does not divide must be refused: raise a ValueError that names both "
                                "sizes, before anything is cut."),
    )
