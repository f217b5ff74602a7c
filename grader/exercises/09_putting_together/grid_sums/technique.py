"""How grid_sums must be done, and how it can fail."""

from grader.evidence.evidence import DEADLOCKED, RAISED
from grader.judging.compare import same
from grader.judging.demands import inputs_kept, only_calls, results_waited
from grader.judging.exercise import Demand, Look, Symptom, Technique
from grader.judging.needs import each_way, needs
from grader.judging.symptoms import unwaited, wrong_ranks


def _in_lines(look: Look) -> tuple[bool, str]:
    n_cols = look.case.inputs[0]["n_cols"]
    for call in look.evidence.trace.of(op="all_reduce"):
        rows, columns = {rank // n_cols for rank in call.members}, {rank % n_cols for rank in call.members}
        if len(rows) > 1 and len(columns) > 1:
            return False, f"rank {call.rank} called all_reduce with ranks {list(call.members)}"
    return True, ""


def _needed(look: Look, rank: int) -> int:
    """x to and from a row, and a column, of more than one rank."""
    inputs = look.case.inputs[rank]
    return inputs["x"].nbytes * ((inputs["n_rows"] > 1) + (inputs["n_cols"] > 1))


def _groups_differ(look: Look) -> bool:
    return look.evidence.ending in (DEADLOCKED, RAISED) and "new_group" in look.evidence.said


def _square(look: Look) -> bool:
    return look.case.inputs[0]["n_rows"] == look.case.inputs[0]["n_cols"]


def _takes_no_part(look: Look) -> bool:
    """Members wait for one that never comes, or a rank got its own x back."""
    stands = look.evidence.ending == DEADLOCKED and "in all_reduce" in look.evidence.said
    return stands or wrong_ranks(lambda look, r, found, right: any(
        same(total, look.case.inputs[r]["x"]) and not same(total, wanted)
        for total, wanted in zip(found, right, strict=True)))(look)


TECHNIQUE = Technique(
    demands=(
        needs(each_way(_needed)),
        only_calls("all_reduce"),
        Demand("whole world", "every all_reduce stays in one row or one column", _in_lines, forbids=True),
        inputs_kept(),
        results_waited(),
    ),
    symptoms=(
        unwaited(),
        Symptom("not everyone makes every group", _groups_differ),
    ),
    fallbacks=(
        Symptom("square grids only", lambda look: look.evidence.ending in (DEADLOCKED, RAISED), refuted=_square),
        Symptom("another rank's group", _takes_no_part),
    ),
)
