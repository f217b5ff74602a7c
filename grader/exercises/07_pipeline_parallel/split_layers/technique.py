"""How split_layers must be done, and how it can fail."""

import itertools
from typing import Any

from grader.exercises.technique.cutting import cutting
from grader.judging.exercise import Look, Symptom
from grader.judging.symptoms import wrong_ranks


def _joined(look: Look, rank: int, found: Any, right: Any) -> bool:
    """All layers are there, in order."""
    return [*itertools.chain(*found["parts"])] == [*itertools.chain(*right["parts"])]


TECHNIQUE = cutting(
    no_message="This is arithmetic: no message is needed.",
    no_error="With more stages than layers some stage would have none: raise ValueError then.",
    not_named="The error is raised, but it does not say how many layers and stages there were: name both.",
    refused="A cut that is possible is refused: there may be as many stages as layers, one layer each.",
    fallbacks=(
        Symptom("larger ones spread", "The sizes are right, but the larger stages do not come first: rounding the borders "
                                      "spreads them. Give one layer more to each of the first n_layers % n_stages stages.",
                wrong_ranks(lambda look, rank, found, right: _joined(look, rank, found, right) and sorted(
                    map(len, found["parts"])) == sorted(map(len, right["parts"])))),
        Symptom("sizes differ", "All layers are there, but sizes differ by more than one, or the number of stages is "
                                "another.",
                wrong_ranks(_joined)),
        Symptom("layers lost", "Not every layer is on one stage, once: a range ends where the next one begins, and "
                               "range(a, b) holds b − 1 as its last.",
                wrong_ranks(lambda look, rank, found, right: not _joined(look, rank, found, right))),
    ),
)
