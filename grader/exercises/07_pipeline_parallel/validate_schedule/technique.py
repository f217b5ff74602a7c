"""How validate_schedule is read, and what wrong findings have in common."""

from grader.evidence.evidence import RAISED, RETURNED
from grader.exercises.technique.faults import reading, wrongly
from grader.judging.demands import only_calls
from grader.judging.exercise import Symptom, Technique
from grader.judging.symptoms import raised
from utils.schedules.faults import MISSING, NOT_THIS_RANKS, STUCK, TOO_MANY

TECHNIQUE = Technique(
    reading=reading,
    demands=(only_calls(id="communicates", hint="This is a question about data: no message is needed."),),
    symptoms=(
        raised("list index out of range", "There may be fewer lists than ranks, and then that rank's steps are MISSING; or "
               "more: look for such a list's own faults before you count what is in flight.", "rank without a list"),
        Symptom("endless", "It never ends: when no rank has moved for a whole round, none ever will. Stop then.",
                lambda look: look.evidence.ending not in (RETURNED, RAISED)),
    ),
    fallbacks=(
        wrongly("stuck too soon", "A schedule that can run is called STUCK: go round all ranks again and again, each as far "
                                  "as it can, and stop only after a round in which nobody has moved.",
                lambda found, right: found.why == STUCK and right.why in ("", TOO_MANY)),
        wrongly("another step stuck", "Name the step at which the lowest rank that cannot finish stands: the first in its "
                                      "list that it could not do, not what that step waits for.",
                lambda found, right: found.why == right.why == STUCK),
        wrongly("ranks without a list pass", "A rank without a list is not looked at: its own list is empty, and so its "
                                             "first step is "
                                             "MISSING.", lambda found, right: right.why == MISSING != found.why),
        wrongly("lists too many pass", "A schedule may have more lists than ranks: look for faults in every list "
                                       "there is. No stage belongs to the rank of such a list.",
                lambda found, right: right.why == NOT_THIS_RANKS != found.why),
        wrongly("another step too many", "TOO_MANY is right, the step is not: name the first forward after which a rank has "
                                         "more in flight than its limit, the micro-batches of all its stages counted "
                                         "together.",
                lambda found, right: found.why == right.why == TOO_MANY),
        wrongly("too many of too little", "TOO_MANY comes where no rank has too many, or too soon: each rank has a limit of "
                                          "its own, which may be reached, and a micro-batch goes at B (or W).",
                lambda found, right: found.why == TOO_MANY and right.why in ("", TOO_MANY)),
        wrongly("too many not seen", "A rank with more in flight than its limit passes: the forwards of all its stages "
                                     "count together, up to the first that is one too many.",
                lambda found, right: right.why == TOO_MANY != found.why),
        wrongly("deadlock not seen", "A schedule that can never run passes, or gets another name.",
                lambda found, right: right.why == STUCK),
        wrongly("own fault not seen", "A rank's own fault passes, or another comes first: ask rank_fault for every rank, "
                                      "from 0 up, before you look at anything else.",
                lambda found, right: right.why not in ("", STUCK, TOO_MANY)),
    ),
)
