"""How split_batch must be done, and how it can fail."""

from grader.exercises.technique.cutting import cutting
from grader.judging.exercise import Symptom
from grader.judging.symptoms import wrong_ranks

TECHNIQUE = cutting(
    no_message="This is slicing: no message is needed.",
    no_error="Where the micro-batches do not divide the rows, raise ValueError: the mean of means would not be the mean.",
    not_named="The error is raised, but it does not name the rows and the number of micro-batches: name both.",
    refused="A batch that can be cut is refused: n_micro divides its rows.",
    fallbacks=(
        Symptom("shape changed", "The rows are right, but their shape is another: a batch may have more than two dims, and "
                                 "only the first is cut.",
                wrong_ranks(lambda look, rank, found, right: [part.flatten().tolist() for part in found["parts"]] == [
                    part.flatten().tolist() for part in right["parts"]])),
        Symptom("number of pieces", "There are n_micro pieces, of B/n_micro rows each.",
                wrong_ranks(lambda look, rank, found, right: [len(part) for part in found["parts"]] != [
                    len(part) for part in right["parts"]])),
    ),
)
