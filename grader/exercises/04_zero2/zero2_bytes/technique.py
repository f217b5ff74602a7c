"""How zero2_bytes must be done, and how it can fail."""

from grader.exercises.technique.zero import whole_bytes
from grader.judging.demands import only_calls
from grader.judging.exercise import Technique

TECHNIQUE = Technique(
    demands=(only_calls(id="communicates", hint="This is arithmetic: no message is needed."),),
    symptoms=(whole_bytes("N need not divide 14Ψ: use /, not //."),),
)
