"""How gpipe_schedule is read, and what its first fault says."""

from grader.exercises.technique.generators import (
    NO_MESSAGE,
    can_run,
    fault_seen,
    own_fault_symptoms,
    peaks_differ,
    plain_reading,
    plain_shape,
)
from grader.judging.exercise import Symptom, Technique
from utils.schedules.faults import STUCK

TECHNIQUE = Technique(
    reading=plain_reading,
    demands=(NO_MESSAGE,),
    fallbacks=(
        *own_fault_symptoms(plain_shape),
        fault_seen("orders do not fit", "The schedule deadlocks or waits: the backwards should come in the same order on "
                                        "all ranks.", lambda fault: fault.why == STUCK, plain_shape),
        Symptom("backward begins early", "A rank has fewer micro-batches in flight than n_micro: in GPipe no backward comes "
                                         "before the last forward of the rank.", peaks_differ(-1, plain_shape)),
        Symptom("waits", "The schedule can run but takes longer than it must: the backwards should come in the same order "
                         "on all ranks.", can_run(plain_shape)),
    ),
)
