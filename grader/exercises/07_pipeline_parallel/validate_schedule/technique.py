"""How validate_schedule is read, and what wrong findings have in common."""

from grader.evidence.evidence import RAISED, RETURNED
from grader.exercises.technique.faults import reading, wrongly
from grader.judging.demands import only_calls
from grader.judging.exercise import Symptom, Technique
from grader.judging.symptoms import raised
from utils.schedules.faults import MISSING, NOT_THIS_RANKS, STUCK, TOO_MANY

TECHNIQUE = Technique(
    reading=reading,
    demands=(only_calls(id="communicates"),),
    symptoms=(
        raised("list index out of range", "rank without a list"),
        Symptom("endless", lambda look: look.evidence.ending not in (RETURNED, RAISED)),
    ),
    fallbacks=(
        wrongly("stuck too soon", lambda found, right: found.why == STUCK and right.why in ("", TOO_MANY)),
        wrongly("another step stuck", lambda found, right: found.why == right.why == STUCK),
        wrongly("ranks without a list pass", lambda found, right: right.why == MISSING != found.why),
        wrongly("lists too many pass", lambda found, right: right.why == NOT_THIS_RANKS != found.why),
        wrongly("another step too many", lambda found, right: found.why == right.why == TOO_MANY),
        wrongly("too many of too little", lambda found, right: found.why == TOO_MANY and right.why in ("", TOO_MANY)),
        wrongly("too many not seen", lambda found, right: right.why == TOO_MANY != found.why),
        wrongly("deadlock not seen", lambda found, right: right.why == STUCK),
        wrongly("own fault not seen", lambda found, right: right.why not in ("", STUCK, TOO_MANY)),
    ),
)
