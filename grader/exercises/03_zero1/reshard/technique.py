"""How reshard must be done, and how it can fail."""

from grader.judging.demands import inputs_kept, only_calls
from grader.judging.exercise import Look, Symptom, Technique
from grader.judging.symptoms import raised, wrong_ranks


def _only_padding(look: Look, rank: int, loaded: dict, right: dict) -> bool:
    """Every number that is there is right."""
    return all(loaded[name].shape == shard.shape and loaded[name].dtype == shard.dtype
               and bool((loaded[name] == shard)[shard != 0].all()) for name, shard in right.items())


TECHNIQUE = Technique(
    demands=(
        only_calls(id="communicates"),
        inputs_kept(gate=True),
    ),
    symptoms=(
        raised("IndexError", "too few pieces"),
    ),
    fallbacks=(
        Symptom("padding not zero", wrong_ranks(_only_padding)),
    ),
)
