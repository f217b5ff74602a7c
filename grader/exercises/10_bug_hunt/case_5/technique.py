"""What is demanded of case_5, and how it can fail."""

from grader.exercises.technique.hunted import first_loss, gradients_once, gradients_summed, repaired
from grader.judging.exercise import Symptom

TECHNIQUE = repaired(
    gradients_once,
    gradients_summed,
    fallbacks=(
        Symptom("other masks", "The masks are not the contract's: rank r *of the group* draws them from seed + 1 + r, "
                               "seeded once, after the model is drawn.", first_loss),
    ),
)
