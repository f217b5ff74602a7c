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
        only_calls(id="communicates"),
        inputs_kept(gate=True),
    ),
    fallbacks=(
        Symptom("lists of tensors", wrong_ranks(_of_ranks)),
        Symptom("a run each", wrong_ranks(lambda look, rank, found, right: list(found) == sorted(found))),
    ),
    reading=_plain,
)
