"""How relayout must be done, and how it can fail."""

from grader.judging.demands import inputs_kept, only_calls
from grader.judging.exercise import Symptom, Technique
from grader.judging.symptoms import raised, wrong_ranks

TECHNIQUE = Technique(
    demands=(
        only_calls(id="communicates", hint="All files are there: no message is needed."),
        inputs_kept("The files that were handed in are no longer what they were: others may still load them. Make tensors "
                    "and dictionaries of your own.", gate=True),
    ),
    symptoms=(
        raised("KeyError", "A file is asked for a parameter that it has not: a stage's files have the names of its own "
               "layers only.", "not in this file"),
    ),
    fallbacks=(
        Symptom("names missing", "Parameters of this stage are missing: its layers, and at the ends what stands before or "
                "behind them.", wrong_ranks(lambda look, rank, found, right: found.keys() < right.keys())),
    ),
)
