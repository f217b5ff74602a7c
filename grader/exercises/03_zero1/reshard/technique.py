"""How reshard must be done, and how it can fail."""

from grader.judging.demands import inputs_kept, only_calls
from grader.judging.exercise import Symptom, Technique
from grader.judging.symptoms import wrong_ranks

TECHNIQUE = Technique(
    demands=(only_calls(id="communicates", hint="All saved shards are there: no message is needed."),
             inputs_kept("The shards that were handed in are no longer what they were: others may still load them. Put them "
                         "together in a new tensor.", gate=True)),
    fallbacks=(
        Symptom("one tensor only", "Every tensor of the state is to be there, under its name.",
                wrong_ranks(lambda look, r, loaded, right: loaded.keys() < right.keys())),
    ),
)
