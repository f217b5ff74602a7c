"""How gpipe_schedule is read, and what its first fault says."""

from grader.exercises.technique.generators import NO_MESSAGE, PLAIN
from grader.judging.exercise import Symptom, Technique
from utils.schedules.faults import STUCK

TECHNIQUE = Technique(
    reading=PLAIN.reading,
    demands=(NO_MESSAGE,),
    fallbacks=(
        *PLAIN.own_fault_symptoms(),
        PLAIN.fault_seen("orders do not fit", "The schedule deadlocks or waits: forwards, and backwards, should come in "
                                              "the same order on all ranks.", STUCK),
        Symptom("backward begins early", "A rank has fewer micro-batches in flight than n_micro: in GPipe no backward comes "
                                         "before the last forward of the rank.",
                lambda look: min(PLAIN.surplus(look)) < 0),
        Symptom("waits", "The schedule can run but takes longer than it must: forwards, and backwards, should come in "
                         "the same order on all ranks.", PLAIN.can_run),
    ),
)
