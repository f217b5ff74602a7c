"""How partition_tensors must be done, and how it can fail."""

import operator
from typing import Any

from grader.judging.demands import inputs_kept, only_calls
from grader.judging.exercise import Look, Symptom, Technique
from grader.judging.symptoms import wrong_ranks


def _plain(case, found: Any) -> Any:
    """Whole numbers of any kind, such as a tensor's, as plain ones."""
    return list(map(operator.index, found))


def _of_ranks(look: Look, rank: int, found: Any, right: Any) -> bool:
    return all(isinstance(own, (list, tuple, set)) for own in (found.values() if isinstance(found, dict) else found))


TECHNIQUE = Technique(
    demands=(
        only_calls(id="communicates", hint="Every rank computes the same list: no message is needed."),
        inputs_kept("Your function changes `sizes`, the caller's list, which belongs to the tensors in their order: work "
                    "on a copy.", gate=True),
    ),
    fallbacks=(
        Symptom("lists of tensors", "Wanted is one list with a rank for each tensor, owners[i] for sizes[i], not the "
                                    "tensors of each rank.", wrong_ranks(_of_ranks)),
        Symptom("a run each", "Each rank gets a run of neighbours, and how balanced that is hangs on the order: take the "
                              "largest tensor first, wherever it stands, and give it to the rank that has least.",
                wrong_ranks(lambda look, rank, found, right: list(found) == sorted(found))),
    ),
    reading=_plain,
)
