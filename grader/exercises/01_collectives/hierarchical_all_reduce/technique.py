"""How hierarchical_all_reduce must be done, and how it can fail."""

from grader.evidence.evidence import DEADLOCKED, RAISED
from grader.exercises.technique.collectives import formula_bytes, needed
from grader.judging.demands import bytes_sent, only_calls, results_waited
from grader.judging.exercise import Demand, Look, Symptom, Technique
from grader.judging.symptoms import unwaited


def _in_node_or_rail(look: Look) -> tuple[bool, str]:
    """Each collective is among ranks of one node, or takes one rank of each node."""
    size = look.case.inputs[0]["node_size"]
    for call in look.evidence.trace.calls:
        nodes = {member // size for member in call.members}
        if call.bytes and 1 < len(nodes) < len(call.members):
            return False, f"rank {call.rank} called {call.op} with ranks {list(call.members)}"
    return True, ""


def _between_nodes(look: Look) -> tuple[bool, str]:
    """Each rank's calls with ranks of other nodes send at most a shard's all-reduce among the nodes."""
    size = look.case.inputs[0]["node_size"]
    nodes = look.case.world_size // size
    for rank in look.working:
        allowed = 2 * (nodes - 1) / nodes * look.case.inputs[rank]["x"].nbytes / size
        sent = sum(call.bytes_formula for call in look.evidence.trace.of(rank)
                   if any(member // size != rank // size for member in call.members))
        if sent > allowed + 1e-6:
            return False, f"rank {rank} sent {sent:,.0f} B in groups of several nodes, allowed {allowed:,.0f} B"
    return True, ""


def _groups_differ(look: Look) -> bool:
    return look.evidence.ending in (DEADLOCKED, RAISED) and "in new_group" in look.evidence.said


def _foreign_group(look: Look) -> bool:
    """A rank takes part in nothing: a collective of a group that it is not in returns at once."""
    return look.case.world_size > 1 and any(
        not [call for call in look.evidence.trace.of(rank) if call.bytes] for rank in look.working)


TECHNIQUE = Technique(
    demands=(
        needed("all_reduce"),
        only_calls("reduce_scatter", "all_reduce", "all_gather", id="other calls"),
        Demand("mixed groups", "each collective stays in one node, or takes one rank of each", _in_node_or_rail, gate=True,
               for_right_values=True, forbids=True),
        Demand("whole arrays between nodes", "only shards travel between nodes", _between_nodes, gate=True,
               for_right_values=True, forbids=True),
        bytes_sent(formula_bytes("all_reduce"), "at most 2(n−1)/n·M bytes in all"),
        results_waited(),
    ),
    symptoms=(
        unwaited(),
        Symptom("not everyone makes every group", _groups_differ),
    ),
    fallbacks=(
        Symptom("another rank's group", _foreign_group),
    ),
)
