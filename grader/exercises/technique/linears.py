"""What the exercises on split linear layers have in common: the dims, and how such layers fail."""

from grader.exercises.technique.splitting import VIEWED, first_wrong, other_dtype, part_missing, sizes_differ, sizes_taken
from grader.judging.exercise import Symptom
from grader.judging.general import IN_GROUPS_ONLY
from grader.judging.symptoms import group_ignored, raised, wrong_ranks

OUT, IN = 0, 1  # the dim of the weight that is cut


def layer_symptoms(*more: Symptom) -> tuple[Symptom, ...]:
    """more: what a layer's own sizes that do not fit are told by, before "shapes"."""
    return (
        group_ignored(),
        IN_GROUPS_ONLY,
        other_dtype(),
        part_missing(),
        raised("'NoneType'", "bias taken for granted"),
        VIEWED,
        *more,
        sizes_differ("shapes"),
    )


def layer_fallbacks() -> tuple[Symptom, ...]:
    """Where a result is wrong first: in its parameters, y, dx, or a parameter's gradient."""
    return (
        Symptom("no gradient", wrong_ranks(lambda look, rank, found, right: any(
            found["gradients"].get(name) is None for name in right["gradients"]))),
        Symptom("more parameters", wrong_ranks(lambda look, rank, found, right: bool(
            found["gradients"].keys() - right["gradients"].keys()))),
        Symptom("wrong y", first_wrong("y")),
        Symptom("wrong dx", first_wrong("dx")),
        Symptom("wrong gradients", first_wrong("gradients")),
        sizes_taken("no error"),
    )
