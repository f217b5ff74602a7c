"""How make_buckets must be done, and how it can fail."""

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


def _out_of_order(look: Look, rank: int, found: list[list[int]], right: list[list[int]]) -> bool:
    """All indices, but not one after the other."""
    indices = _indices(found)
    return indices != sorted(indices, reverse=True) and sorted(indices) == sorted(_indices(right))


TECHNIQUE = arithmetic(
    raised("index out of range", "none"),
    demands=(inputs_kept(gate=True),),
    fallbacks=(
        Symptom("overfull", wrong_ranks(_overfull)),
        Symptom("empty bucket", wrong_ranks(lambda _, rank, found, right: [] in found)),
        Symptom("out of order", wrong_ranks(_out_of_order)),
    ),
)
