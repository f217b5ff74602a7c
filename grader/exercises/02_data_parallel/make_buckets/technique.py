"""How make_buckets must be done, and how it can fail."""

from grader.exercises.technique.arithmetic import arithmetic
from grader.judging.exercise import Look, Symptom
from grader.judging.symptoms import raised, wrong_ranks


def _overfull(look: Look, rank: int, found: list[list[int]], right: list[list[int]]) -> bool:
    sizes_bytes, bucket_bytes = look.case.inputs[rank].values()
    return any(len(bucket) > 1 and sum(sizes_bytes[index] for index in bucket) > bucket_bytes for bucket in found)


TECHNIQUE = arithmetic(
    raised("index out of range", "It stops where there are no parameters: the answer is then no bucket.", "none"),
    fallbacks=(
        Symptom("overfull", "A bucket is closed only after it is too full: look before you put the next one in. Only a "
                            "parameter that is larger than a bucket by itself may exceed it.", wrong_ranks(_overfull)),
        Symptom("empty bucket", "There is an empty bucket: open one only for a parameter that goes into it.",
                wrong_ranks(lambda _, rank, found, right: [] in found)),
    ),
)
