"""How my_share must be done, and what else can be wrong with shares."""

from grader.judging.demands import inputs_kept, only_calls
from grader.judging.exercise import Look, Symptom, Technique
from grader.judging.general import IN_GROUPS_ONLY
from grader.judging.symptoms import raised, wrong_ranks


def _whole(look: Look) -> bool:
    """Put end to end, the shares of every group are the list."""
    shares = [[item for peer in look.case.members(r) for item in look.outputs[peer]] for r in look.working]
    return all(share == look.case.inputs[r]["items"] for r, share in zip(look.working, shares, strict=True))


TECHNIQUE = Technique(
    demands=(only_calls(id="communicates", hint="No message is needed: every rank has the whole list, knows its rank "
                        "and the number of ranks, and can work out its own share."),
             inputs_kept("The share is right, but the list that was handed in is no longer whole: others may still need it. "
                         "Cut the share out, items[start:stop], and leave items alone.", gate=True)),
    symptoms=(
        Symptom("None for nothing", "A rank without items returns None: its share is an empty list, as a slice gives it.",
                wrong_ranks(lambda look, rank, found, right: found is None and right == [])),
        raised("too many dimensions 'str'", "Items may be anything, texts too, and a tensor holds numbers only (rounded "
               "ones, of float32): cut the list itself.", "list made a tensor"),
    ),
    fallbacks=(
        IN_GROUPS_ONLY,
        Symptom("lost or doubled", "Put end to end, the shares do not give the list: items are lost or doubled. Rank "
                "r+1 must start where rank r ends.", lambda look: not _whole(look)),
        Symptom("cut elsewhere", "Put end to end, the shares give the list, but they are cut at other places: of m items "
                "the first m % n ranks get m // n + 1 each, all others m // n.", _whole),
    ),
)
