"""What can be wrong with a pipeline schedule: a word for each fault, and how its sentence goes on after the step's name."""

UNKNOWN_KIND, NO_SUCH_MICRO, NOT_THIS_RANKS = "unknown kind", "no such micro-batch", "not this rank's stage"
REPEATED, MISSING, TOO_EARLY = "repeated", "missing", "too early"
STUCK, TOO_MANY = "stuck", "too many in flight"

SENTENCES = {
    UNKNOWN_KIND: "is of a kind that this schedule does not have",
    NO_SUCH_MICRO: "is of a micro-batch that does not exist",
    NOT_THIS_RANKS: "belongs to another rank, or to no stage at all",
    REPEATED: "comes twice",
    MISSING: "is missing",
    TOO_EARLY: "comes before a step of the same rank that it needs",
    STUCK: "can never start, because here ranks wait for each other in a circle",
    TOO_MANY: "puts more micro-batches in flight than the rank may keep",
}
