"""How layer_bytes must be done."""

from grader.judging.demands import only_calls
from grader.judging.exercise import Technique

TECHNIQUE = Technique(demands=(only_calls(id="communicates", hint="This is arithmetic: no message is needed."),))
