"""How ScatterSequence must be done, and how it can fail."""

from grader.exercises.technique.sequences import first_wrong_is, function_symptoms, not_refused, written_over
from grader.exercises.technique.sharding import gathered_and_reduced, gathers_and_reductions
from grader.judging.demands import bytes_sent, inputs_kept, only_calls, results_waited, tensor_bytes
from grader.judging.exercise import Symptom, Technique
from grader.judging.general import IN_GROUPS_ONLY

TECHNIQUE = Technique(
    call="sequences:call_sequence_function",
    demands=(
        # Two calls forward, one backward, as call_sequence_function makes them.
        gathered_and_reduced(tensor_bytes, reductions=2),
        only_calls("reduce_scatter", "all_gather"),
        bytes_sent(lambda look, rank: gathers_and_reductions(look, rank, tensor_bytes(look, rank), reductions=2),
                   "(n−1)/n of the whole tensor's bytes in each pass"),
        inputs_kept(),
        results_waited(),
    ),
    symptoms=(written_over(), *function_symptoms(), not_refused()),
    fallbacks=(
        IN_GROUPS_ONLY,
        Symptom("wrong result", first_wrong_is("y")),
        Symptom("wrong gradient", first_wrong_is("dx")),
    ),
)
