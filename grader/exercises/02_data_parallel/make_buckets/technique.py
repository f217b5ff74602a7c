"""How make_buckets must be done, and how it can fail."""

from grader.evidence.evidence import TIMED_OUT
from grader.exercises.technique.arithmetic import arithmetic
from grader.judging.demands import inputs_kept
from grader.judging.exercise import Look, Symptom
from grader.judging.symptoms import raised, wrong_ranks


def _overfull(look: Look, rank: int, found: list[list[int]], right: list[list[int]]) -> bool:
    sizes_bytes, bucket_bytes = look.case.inputs[rank].values()
    if sorted(index for bucket in found for index in bucket) != list(range(len(sizes_bytes))):
        return False
    return any(len(bucket) > 1 and sum(sizes_bytes[index] for index in bucket) > bucket_bytes for bucket in found)


def _indices(buckets: list[list[int]]) -> list[int]:
    return [index for bucket in buckets for index in bucket]


def _sizes(look: Look, rank: int, found: list[list[int]], right: list[list[int]]) -> bool:
    """The buckets hold sizes for indices."""
    sizes_bytes, _ = look.case.inputs[rank].values()
    return sorted(_indices(found)) == sorted(sizes_bytes)


def _doubled(look: Look, rank: int, found: list[list[int]], right: list[list[int]]) -> bool:
    """As many numbers as there are, some of them twice."""
    return len(set(_indices(found))) < len(_indices(found)) == len(_indices(right))


def _out_of_order(look: Look, rank: int, found: list[list[int]], right: list[list[int]]) -> bool:
    """All indices, but not one after the other."""
    indices = _indices(found)
    return indices != sorted(indices, reverse=True) and sorted(indices) == sorted(_indices(right))


TECHNIQUE = arithmetic(
    Symptom("endless", "It does not end: a parameter that is larger than a bucket fits into none, and must still get one "
                       "for itself.", lambda look: look.evidence.ending == TIMED_OUT),
    raised("index out of range", "It stops where there are no parameters: the answer is then no bucket.", "none"),
    demands=(inputs_kept("The list sizes_bytes is no longer what it was, and its owner may need it: go over it without "
                         "pop().", gate=True),),
    fallbacks=(
        Symptom("overfull", "A bucket is closed only after it is too full: look before you put the next one in. Only a "
                            "parameter that is larger than a bucket by itself may exceed it.", wrong_ranks(_overfull)),
        Symptom("empty bucket", "There is an empty bucket: open one only for a parameter that goes into it.",
                wrong_ranks(lambda _, rank, found, right: [] in found)),
        Symptom("sizes returned", "The buckets hold sizes: what is wanted are the parameters' indices.",
                wrong_ranks(_sizes)),
        Symptom("an index twice", "An index is there twice: parameters of one size have the same sizes_bytes.index(size), "
                                  "so go over the indices themselves.", wrong_ranks(_doubled)),
        Symptom("out of order", "The parameters no longer stand from the last to the first: only the bucket that was opened "
                                "last is filled, and what does not fit opens the next.", wrong_ranks(_out_of_order)),
    ),
)
