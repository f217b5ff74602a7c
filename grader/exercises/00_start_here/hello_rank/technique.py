"""How hello_rank must be done, and how it can fail."""

import re

from grader.evidence.evidence import RETURNED
from grader.judging.demands import only_calls
from grader.judging.exercise import Look, Symptom, Technique
from grader.judging.symptoms import every_rank

_returned_none = every_rank(lambda look, rank, found, expected: found is None)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)))


def _fixed_world_size(look: Look) -> bool:
    """The rank is right, the second number is another one than the world size and the same on all ranks."""
    shown = [_numbers(found) for found in look.outputs]
    counts = {count for _, count in shown}
    return [rank for rank, _ in shown] == look.working and len(counts) == 1 and look.case.world_size not in counts


def _all_the_same(look: Look) -> bool:
    return look.evidence.ending == RETURNED and look.case.world_size > 1 and len(set(map(_numbers, look.outputs))) == 1


TECHNIQUE = Technique(
    demands=(only_calls(id="communicates"),),
    symptoms=(
        Symptom("printed, not returned", lambda look: _returned_none(look) and any(look.evidence.prints.values())),
        Symptom("no f-string", every_rank(lambda look, rank, found, _: "{" in found)),
        Symptom("not called", every_rank(lambda look, rank, found, _: "<function" in found)),
    ),
    fallbacks=(
        Symptom("world size written in", _fixed_world_size),
        Symptom("all the same", _all_the_same),
        Symptom("other words", every_rank(lambda look, rank, found, right: _numbers(found) == _numbers(right))),
    ),
)
