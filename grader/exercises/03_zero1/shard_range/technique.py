"""How shard_range must be done, and how it can fail."""

import operator
from dataclasses import replace
from typing import Any

from grader.exercises.technique.arithmetic import arithmetic
from grader.judging.exercise import Symptom
from grader.judging.symptoms import every_rank


def _plain(case, found: Any) -> Any:
    """Whole numbers of any kind, such as a tensor's, as plain ones."""
    return tuple(map(operator.index, found))


TECHNIQUE = replace(arithmetic(fallbacks=(
    Symptom("elements", "Returned are the elements themselves: wanted are two numbers, where the range starts and where "
                        "it stops.", every_rank(lambda look, r, output, _: not (
                            isinstance(output, (tuple, list)) and len(output) == 2))),
)), reading=_plain)
