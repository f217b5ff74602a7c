"""How split_batch must be done, and how it can fail."""

from grader.evidence.evidence import RAISED
from grader.judging.demands import only_calls
from grader.judging.exercise import Symptom, Technique
from grader.judging.symptoms import wrong_ranks

TECHNIQUE = Technique(
    demands=(only_calls(id="communicates", hint="This is slicing: no message is needed."),),
    symptoms=(
        Symptom("no error", "Where the micro-batches do not divide the rows, raise ValueError: the mean of means would not "
                            "be the mean.",
                wrong_ranks(lambda look, rank, found, right: "parts" in found and "parts" not in right)),
        Symptom("sizes not named", "The error is raised, but it does not name the rows and the number of micro-batches: "
                                   "name both.",
                wrong_ranks(lambda look, rank, found, right: "parts" not in found and "parts" not in right)),
        Symptom("another error", "Here another error comes up: raise ValueError, with a sentence of your own, before "
                                 "anything is cut.",
                lambda look: look.evidence.ending == RAISED and "parts" not in look.right[0]),
        Symptom("refused", "A batch that can be cut is refused: n_micro divides its rows.",
                wrong_ranks(lambda look, rank, found, right: "parts" not in found and "parts" in right)),
    ),
    fallbacks=(
        Symptom("shape changed", "The rows are right, but their shape is another: a batch may have more than two dims, and "
                                 "only the first is cut.",
                wrong_ranks(lambda look, rank, found, right: [part.flatten().tolist() for part in found["parts"]] == [
                    part.flatten().tolist() for part in right["parts"]])),
        Symptom("number of pieces", "There are n_micro micro-batches, of B/n_micro rows each.",
                wrong_ranks(lambda look, rank, found, right: [len(part) for part in found["parts"]] != [
                    len(part) for part in right["parts"]])),
    ),
)
