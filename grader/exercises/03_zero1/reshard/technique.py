"""How reshard must be done, and how it can fail."""

from grader.judging.compare import same
from grader.judging.demands import inputs_kept, only_calls
from grader.judging.exercise import Look, Symptom, Technique
from grader.judging.symptoms import raised, wrong_ranks

TYPE = "The elements are right, their dtype is not: a new tensor of the same dtype comes from new_zeros()."


def _other_types(look: Look, rank: int, loaded: dict, right: dict) -> bool:
    return all(same(loaded[name].double(), shard.double()) for name, shard in right.items())


def _only_padding(look: Look, rank: int, loaded: dict, right: dict) -> bool:
    """Every number that is there is right."""
    return all(loaded[name].shape == shard.shape and bool((loaded[name] == shard)[shard != 0].all())
               for name, shard in right.items())


TECHNIQUE = Technique(
    demands=(only_calls(id="communicates", hint="All saved shards are there: no message is needed."),
             inputs_kept("The shards that were handed in are no longer what they were: others may still load them. Put them "
                         "together in a new tensor.", gate=True)),
    symptoms=(
        raised("IndexError", "Some rank finds no shard: chunk() may give fewer chunks than ranks, where the elements are "
                             "few. Each rank gets a shard, perhaps of zeros only.", "too few pieces"),
    ),
    fallbacks=(
        Symptom("type not kept", TYPE, wrong_ranks(_other_types)),
        Symptom("one tensor only", "Every tensor of the state is to be there, under its name.",
                wrong_ranks(lambda look, r, loaded, right: loaded.keys() < right.keys())),
        Symptom("padding not zero", "Right but for the padding, which is to be zeros.", wrong_ranks(_only_padding)),
    ),
)
