"""How gpipe_step must be done, and how it can fail."""

from grader.exercises.technique.pipeline_messages import STEP_FALLBACKS, message_symptoms
from grader.exercises.technique.pipeline_passes import only_neighbours, order, outputs_sent
from grader.judging.demands import results_waited, sends_waited
from grader.judging.exercise import Technique

TECHNIQUE = Technique(
    demands=(
        only_neighbours(),
        order(lambda p, r, m: "F" * m + "B" * m, "not all forward first", "n_micro forward passes, then n_micro backward",
              "The gradients are right, but the passes come in another order than GPipe's: first every micro-batch forward, "
              "each by itself, then every one backward."),
        outputs_sent("each output forward once, each gradient back once",
                     "Right, but more is sent than needed: outputs to the next stage, gradients of inputs to the one "
                     "before.",
                     back=True),
        results_waited(),
        sends_waited(),
    ),
    symptoms=message_symptoms("Two stages send to each other and neither receives: in GPipe all forward messages come "
                              "before all backward ones, on every stage."),
    fallbacks=STEP_FALLBACKS,
)
