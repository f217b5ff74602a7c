"""How flat_shard must be done, and how it can fail."""

from typing import Any

from grader.judging.compare import same
from grader.judging.demands import only_calls
from grader.judging.exercise import Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, raised, wrong_ranks

ASK_THE_GROUP = "Right for the whole world, wrong in a group: ask dist.get_rank(group) and dist.get_world_size(group)."


def _only_padding_wrong(look: Look, rank: int, found: dict[str, Any], right: dict[str, Any]) -> bool:
    shard, zeros = found["shard"], right["shard"] == 0
    return shard.shape == zeros.shape and bool(zeros.any()) and same(shard.masked_fill(zeros, 0), right["shard"])


def _only_dtype_wrong(look: Look, rank: int, found: dict[str, Any], right: dict[str, Any]) -> bool:
    shard = found["shard"]
    return shard.dtype != right["shard"].dtype and same(shard.to(right["shard"].dtype), right["shard"])


TECHNIQUE = Technique(
    demands=(only_calls(id="communicates", hint="Every rank has the whole parameters here and cuts its own part out: no "
                        "message is needed."),),
    symptoms=(
        group_ignored(ASK_THE_GROUP),
        Symptom("whole kept alive", "The elements are right, but the shard is a view: as long as it lives, so does the "
                                    "flat buffer that it was cut from, and nothing is saved. Copy it (clone()).",
                wrong_ranks(lambda look, r, found, right: same(found["shard"], right["shard"])
                            and found["bytes kept alive"] != right["bytes kept alive"] and not found["has a history"])),
        Symptom("not zeros", "The padding is something else than zeros: F.pad(flat, (0, k)), or torch.zeros and a copy.",
                wrong_ranks(_only_padding_wrong)),
        Symptom("other dtype", "The shard has another dtype than the parameters: cast nothing, and make new tensors in the "
                               "parameters' own (flat.new_zeros, F.pad).", wrong_ranks(_only_dtype_wrong)),
        raised("out of range", "There may be fewer elements than ranks: pad first, then cut into n shards.", "too few"),
    ),
)
