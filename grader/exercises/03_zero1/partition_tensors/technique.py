"""How partition_tensors must be done."""

from grader.judging.demands import only_calls
from grader.judging.exercise import Technique

TECHNIQUE = Technique(
    demands=(only_calls(id="communicates", hint="Every rank computes the same list: no message is needed."),),
)
