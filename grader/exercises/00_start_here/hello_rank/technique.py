"""How hello_rank must be done, and how it can fail."""

import re

from grader.evidence.evidence import RETURNED
from grader.judging.demands import only_calls
from grader.judging.exercise import Look, Symptom, Technique
from grader.judging.symptoms import every_rank, raised, wrong_ranks

_returned_none = every_rank(lambda look, rank, found, expected: found is None)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)))


def _fixed_world_size(look: Look) -> bool:
    """The rank is right, the second number is another one than the world size and the same on all ranks."""
    shown = [_numbers(found) for found in look.outputs]
    counts = {count for _, count in shown}
    return [rank for rank, _ in shown] == look.working and len(counts) == 1 and look.case.world_size not in counts


def _all_the_same(look: Look) -> bool:
    return look.evidence.ending == RETURNED and look.case.world_size > 1 and len(set(look.outputs)) == 1


TECHNIQUE = Technique(
    demands=(only_calls(id="communicates", hint="No message is needed: dist.get_rank() and dist.get_world_size() answer at "
                        "once, from what the rank knows already."),),
    symptoms=(
        Symptom("printed, not returned", "The sentence is printed but not returned: a print is for people; only what a "
                "rank returns comes back to the notebook.",
                lambda look: _returned_none(look) and any(look.evidence.prints.values())),
        raised("NameError", "Only a %%ranks cell has rank and world_size ready. Inside a function, ask: "
               "dist.get_rank() and dist.get_world_size().", "rank not defined"),
        Symptom("no f-string", "The text shows the braces themselves: put an f before the opening quote, so that Python "
                "fills in what they hold.", every_rank(lambda look, rank, found, _: "{" in found)),
        Symptom("only some ranks", "Only some ranks return the text: all run the same program, and each returns its own.",
                wrong_ranks(lambda look, rank, found, _: found is None and any(look.outputs))),
        Symptom("texts of all", "Each rank returns the texts of all: return this rank's own only.",
                every_rank(lambda look, rank, found, right: isinstance(found, (list, tuple)) and right in found)),
        Symptom("not called", "The text holds a function, not a number: call it, with parentheses, dist.get_rank().",
                every_rank(lambda look, rank, found, _: "<function" in found)),
    ),
    fallbacks=(
        Symptom("world size written in", "The world size is a fixed number in your code. The same program runs on "
                "2 ranks and on 2000: ask dist.get_world_size().", _fixed_world_size),
        Symptom("all the same", "All ranks say the same, because they all run the same program. Call dist.get_rank() to "
                "find out which rank this one is.", _all_the_same),
        Symptom("other words", "The numbers are right, the words are not: compare them letter by letter with the "
                "contract.", every_rank(lambda look, rank, found, right: _numbers(found) == _numbers(right))),
    ),
)
