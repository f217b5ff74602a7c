"""How flat_shard must be done, and how it can fail."""

from grader.judging.compare import same
from grader.judging.demands import only_calls
from grader.judging.exercise import Symptom, Technique
from grader.judging.symptoms import group_ignored, raised, wrong_ranks

ASK_THE_GROUP = "Right for the whole world, wrong in a group: ask dist.get_rank(group) and dist.get_world_size(group)."

TECHNIQUE = Technique(
    demands=(only_calls(id="communicates", hint="Every rank has the whole parameters here and cuts its own part out: no "
                        "message is needed."),),
    symptoms=(
        group_ignored(ASK_THE_GROUP),
        Symptom("whole kept alive", "The numbers are right, but the shard is a view: as long as it lives, so does the whole "
                                    "row that it was cut from, and nothing is saved. Copy it (clone()).",
                wrong_ranks(lambda look, r, found, right: same(found["shard"], right["shard"]))),
        raised("out of range", "There may be fewer numbers than ranks: pad first, then cut into n pieces.", "too few"),
    ),
)
