"""How shard_range must be done, and how it can fail."""

from grader.judging.demands import only_calls
from grader.judging.exercise import Symptom, Technique
from grader.judging.symptoms import every_rank

TECHNIQUE = Technique(
    demands=(only_calls(id="communicates", hint="This is arithmetic: no message is needed."),),
    fallbacks=(
        Symptom("elements", "Returned are the elements themselves: wanted are two numbers, where the range starts and where "
                            "it stops.", every_rank(lambda look, r, output, _: not (
                                isinstance(output, (tuple, list)) and len(output) == 2))),
    ),
)
