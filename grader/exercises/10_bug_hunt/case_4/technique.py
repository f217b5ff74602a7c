"""What is demanded of case_4, and how it can fail."""

from grader.evidence.evidence import DEADLOCKED
from grader.exercises.technique.hunted import PASSES_TRAINED, repaired
from grader.exercises.technique.rank_by_rank import on_each_rank, spans_called, spans_if_any
from grader.judging.exercise import Demand, Look, Symptom
from grader.judging.needs import each_way
from grader.judging.symptoms import raised
from utils.models.hunted import KEPT, PASS


def _done(look: Look, rank: int) -> str:
    """The passes of a rank's stage, as in FFBB."""
    return "".join(span.facts["kind"] for span in spans_if_any(look, rank, PASS))


def _wanted(look: Look, rank: int) -> str:
    p, r, steps = look.case.group_size(rank), look.case.group_rank(rank), look.case.inputs[rank]["steps"]
    order = ""
    for xs, _ in steps:
        warm_up = min(p - 1 - r, len(xs))
        order += "F" * warm_up + "FB" * (len(xs) - warm_up) + "B" * warm_up
    return order


def _not_seen(look: Look, rank: int) -> str:
    done, wanted = _done(look, rank), _wanted(look, rank)
    return f"rank {rank} did {done or 'nothing'}" if sorted(done) != sorted(wanted) else ""


def _exchanged(look: Look, rank: int) -> str:
    """The same by what goes to the stage behind and to the stage before; an end has one of both, and what comes back."""
    members, place = look.case.members(rank), look.case.group_rank(rank)
    forward = ("send", members[place + 1]) if place + 1 < len(members) else ("recv", members[place - 1])
    backward = ("send", members[place - 1]) if place else ("recv", members[place + 1])
    kinds = {forward: "F", backward: "B"}
    return "".join(kinds.get((call.op, call.peer), "") for call in look.evidence.trace.of(rank))


def _other_order(look: Look, rank: int) -> str:
    done, wanted = _done(look, rank), _wanted(look, rank)
    if done == wanted and look.case.group_size(rank) > 1:
        done = _exchanged(look, rank)
    return f"rank {rank} did {done}, wanted {wanted}" if done != wanted else ""


def _kept_too_many(look: Look, rank: int) -> str:
    allowed = look.case.group_size(rank) - look.case.group_rank(rank)
    most = max(span.facts["count"] for span in spans_called(look, rank, KEPT))
    return f"rank {rank} kept {most} micro-batches, allowed {allowed}" if most > allowed else ""


def _limit(look: Look, rank: int) -> float:
    """Each output to the stage behind, each gradient to the stage before."""
    place, last = look.case.group_rank(rank), look.case.group_size(rank) - 1
    return sum(x.nbytes for xs, _ in look.case.inputs[rank]["steps"] for x in xs) * ((place < last) + (place > 0))


def _upside_down(look: Look) -> bool:
    """The first stage, done with fewer forward passes than 1F1B's warm-up and one, waits for a gradient."""
    if look.evidence.ending != DEADLOCKED:
        return False
    firsts = {look.case.members(rank)[0] for rank in look.working}
    return all(len(_done(look, rank)) < look.case.group_size(rank) for rank in firsts)


TECHNIQUE = repaired(
    _limit,
    each_way(_limit),
    Demand("passes not seen", "each stage does every pass once, by hunted.Passes", on_each_rank(_not_seen), gate=True),
    Demand("kept too many", "stage r keeps p − r micro-batches at most", on_each_rank(_kept_too_many)),
    PASSES_TRAINED,
    Demand("another order", "1F1B's order", on_each_rank(_other_order)),
    symptoms=(
        Symptom("untouched", _upside_down),
        raised("index out of range", "no micro-batch left"),
        raised("without a micro-batch", "nothing kept"),
    ),
)
