"""How rank_fault is read, and what wrong findings have in common."""

from grader.exercises.technique.faults import reading, wrongly
from grader.judging.demands import only_calls
from grader.judging.exercise import Symptom, Technique
from utils.schedules.faults import MISSING, NO_SUCH_MICRO, NOT_THIS_RANKS, REPEATED, TOO_EARLY, UNKNOWN_KIND

IMPOSSIBLE = (UNKNOWN_KIND, NO_SUCH_MICRO, NOT_THIS_RANKS)
SEARCHES = (IMPOSSIBLE, (REPEATED,), (MISSING,), (TOO_EARLY,))


def _search(why: str) -> int:
    """In which search such a fault is found; beyond them all if in none."""
    return next((number for number, words in enumerate(SEARCHES) if why in words), len(SEARCHES))


def _overlooked(why: str, hint: str) -> Symptom:
    """All that is wrong are lists with this fault, for which none or another one is named."""
    return wrongly(f"{why} overlooked", hint, lambda found, right: right.why == why and found.why != why)


def _other_step(why: str, hint: str) -> Symptom:
    return wrongly(f"{why}, of another step", hint, lambda found, right: right.why == found.why == why)


TECHNIQUE = Technique(
    reading=reading,
    demands=(only_calls(id="communicates", hint="This is a question about data: no message is needed."),),
    fallbacks=(
        _other_step(TOO_EARLY, "The fault is TOO_EARLY, but of another step: name the one that comes too early, at its "
                               "place in the list, not what it needs."),
        _other_step(REPEATED, "The fault is REPEATED, but of another step: the first one that, as you go through the list, "
                              "has come before."),
        wrongly("word for another step", "The fault has the right name, but belongs to another step: each search goes "
                                         "through the list from its start and names the first step that it finds.",
                lambda found, right: bool(found.why) and found.why == right.why),
        wrongly("first search in pieces", "The first search is one walk through the list: at each step ask for its kind, "
                                          "its micro-batch and its stage, and name the first step that cannot be.",
                lambda found, right: {found.why, right.why} <= {*IMPOSSIBLE} and found.step != right.step),
        _overlooked(UNKNOWN_KIND, "A step of an unknown kind passes, or gets another name: only the kinds in shape.kinds "
                                  "exist here, and a \"W\" is none in \"FB\"."),
        _overlooked(NO_SUCH_MICRO, "An impossible micro-batch passes, or gets another name: they go from 0 to n_micro − 1, "
                                   "and there is no −1."),
        _overlooked(NOT_THIS_RANKS, "An impossible stage passes, or gets another name: a rank's stages are those from 0 to "
                                    "n_stages − 1 with s % n_ranks == rank, and no others."),
        _overlooked(REPEATED, "A step that comes a second time passes, or gets another name: look whether it is among the "
                              "steps before it."),
        wrongly("missing overlooked", "A step too few passes, or gets another name: every kind of every micro-batch on each "
                "of the rank's stages must come.", lambda found, right: right.why == MISSING),
        _overlooked(TOO_EARLY, "A step before one that it needs passes: look at all its needs on this rank, on another of "
                               "its stages too, and compare with the steps before it."),
        wrongly("later search first", "A fault that should be found by a later search comes first: look through the whole "
                                      "list for impossible steps, then again for repeated ones, and so on.",
                lambda found, right: _search(found.why) > _search(right.why) and bool(found.why and right.why)),
        wrongly("order refused", "A list that is in order is "
                                 "refused.", lambda found, right: bool(found.why) and not right.why),
    ),
)
