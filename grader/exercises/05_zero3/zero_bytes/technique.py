"""How zero_bytes can fail where its formula is right."""

from grader.judging.compare import same
from grader.judging.exercise import Symptom, Technique
from grader.judging.symptoms import every_rank

DIGITS_OF_FLOAT32 = 1e-6

TECHNIQUE = Technique(fallbacks=(
    Symptom("few digits", every_rank(lambda look, rank, found, right: same(found, right, DIGITS_OF_FLOAT32))),
))
