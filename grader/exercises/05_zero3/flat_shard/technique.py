"""How flat_shard must be done, and how it can fail."""

from typing import Any

from grader.judging.compare import same
from grader.judging.demands import only_calls
from grader.judging.exercise import Look, Symptom, Technique
from grader.judging.symptoms import raised, wrong_ranks


def _only_padding_wrong(look: Look, rank: int, found: dict[str, Any], right: dict[str, Any]) -> bool:
    shard, zeros = found["shard"], right["shard"] == 0
    return shard.shape == zeros.shape and bool(zeros.any()) and same(shard.masked_fill(zeros, 0), right["shard"])


def _only_dtype_wrong(look: Look, rank: int, found: dict[str, Any], right: dict[str, Any]) -> bool:
    shard = found["shard"]
    return shard.dtype != right["shard"].dtype and same(shard.to(right["shard"].dtype), right["shard"])


TECHNIQUE = Technique(
    demands=(only_calls(id="communicates"),),
    symptoms=(
        Symptom("whole kept alive", wrong_ranks(lambda look, r, found, right: same(found["shard"], right["shard"])
                            and found["bytes kept alive"] != right["bytes kept alive"] and not found["has a history"])),
        Symptom("not zeros", wrong_ranks(_only_padding_wrong)),
        Symptom("other dtype", wrong_ranks(_only_dtype_wrong)),
        raised("out of range", "too few"),
    ),
)
