"""How shard_batch must be done."""

from grader.judging.demands import only_calls
from grader.judging.exercise import Technique

TECHNIQUE = Technique(
    demands=(only_calls(id="communicates", hint="Every rank has the whole batch here and can cut its own part out: no "
                        "message is needed."),),
)
