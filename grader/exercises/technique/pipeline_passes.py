"""What is asked of a pipeline's technique: which calls, in which order its passes come, how many micro-batches stand."""

from collections.abc import Callable

from grader.calling.pipelining import IN_FLIGHT, PASS
from grader.judging.demands import bytes_sent, only_calls
from grader.judging.exercise import Demand, Look

ByStage = Callable[[int, int, int], int]  # (stages, stage, micro-batches) -> a number


def only_neighbours() -> Demand:
    return only_calls("send", "recv", hint=(
        "Stages are neighbours: each talks to the one before it and the next one only, by send and recv (isend, irecv, "
        "batch_isend_irecv). A collective would make all of them wait."))


def passes(look: Look, rank: int) -> list[tuple[str, int, float]]:
    """(F or B, micro-batch, when) of a rank's stage, in order."""
    spans = [s for s in look.evidence.trace.spans if s.rank == rank and s.name == PASS]
    return [(s.facts["kind"], s.facts["micro"], s.start_s) for s in spans]


def order(wanted: Callable[[int, int, int], str], id: str, label: str, hint: str) -> Demand:
    """Each rank's passes come in the order wanted(stages, stage, micro-batches), such as "FFFBBB"."""

    def judge(look: Look) -> tuple[bool, str]:
        for rank in look.working:
            right, done = wanted(*_place(look, rank)), "".join(kind for kind, *_ in passes(look, rank))
            if done != right:
                return False, f"rank {rank} did {done or 'nothing'}, wanted {right}"
        return True, ""

    return Demand(id, label, hint, judge)


def in_flight_at_most(limit: ByStage, label: str, hint: str) -> Demand:
    """Autograd never keeps the activations of more micro-batches than limit(stages, stage, micro-batches)."""

    def judge(look: Look) -> tuple[bool, str]:
        for rank in look.working:
            counts = [s.facts["count"] for s in look.evidence.trace.spans if s.rank == rank and s.name == IN_FLIGHT]
            most, allowed = max(counts, default=0), limit(*_place(look, rank))
            if most > allowed:
                return False, f"rank {rank} kept activations of {most} micro-batches, allowed {allowed}"
        return True, ""

    return Demand("activations kept too long", label, hint, judge)


def _place(look: Look, rank: int) -> tuple[int, int, int]:
    members = look.case.members(rank)
    return len(members), members.index(rank), look.case.inputs[rank]["n_micro"]


def outputs_sent(label: str, hint: str, back: bool) -> Demand:
    """A stage sends its outputs to the next one and, if `back`, the gradients of its inputs to the one before."""

    def limit(look: Look, rank: int) -> int:
        inputs, members, place = look.case.inputs, look.case.members(rank), look.case.group_rank(rank)
        forward = inputs[members[place + 1]]["like"].nbytes if place + 1 < len(members) else 0
        backward = inputs[rank]["like"].nbytes if back and place else 0
        return inputs[rank]["n_micro"] * (forward + backward)

    return bytes_sent(limit, label, hint)
