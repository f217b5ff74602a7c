"""How shard_batch must be done, and how it can fail."""

from grader.judging.demands import inputs_kept, only_calls
from grader.judging.exercise import Symptom, Technique
from grader.judging.symptoms import group_ignored, raised, wrong_ranks

TECHNIQUE = Technique(
    demands=(
        only_calls(id="communicates", hint="Every rank has the whole batch here and can cut its own part out: no message is "
                                           "needed."),
        inputs_kept("The batch itself was changed, and others may read it still: return a part of it, and leave it.",
                    gate=True),
    ),
    symptoms=(
        group_ignored("Right for the whole world, wrong in a group: ask dist.get_rank(group) and "
                      "dist.get_world_size(group), both of them."),
    ),
    fallbacks=(
        *(raised(text, "Batches have one dim (targets), two, or more: use the first only, len(x_BD), and slice it.",
                 "two dims only") for text in ("values to unpack", "not enough values", "out of range")),
        Symptom("another dtype", "The rows are of another dtype than x_BD's: cut the tensor itself, without a way through "
                                 "lists or float().",
                wrong_ranks(lambda _, rank, found, right: found.dtype != right.dtype)),
        Symptom("no empty share", "With fewer rows than ranks some shares are empty, shape (0, D): a row that another rank "
                                  "has too would count twice.",
                wrong_ranks(lambda _, rank, found, right: len(found) > len(right) == 0)),
    ),
)
