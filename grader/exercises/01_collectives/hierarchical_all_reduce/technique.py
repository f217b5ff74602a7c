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
    return look.evidence.ending in (DEADLOCKED, RAISED) and "in new_group" in look.evidence.error


def _foreign_group(look: Look) -> bool:
    """A rank takes part in nothing: a collective of a group that it is not in returns at once."""
    return look.case.world_size > 1 and any(
        not [call for call in look.evidence.trace.of(rank) if call.bytes] for rank in look.working)


TECHNIQUE = Technique(
    demands=(
        needed("all_reduce"),
        only_calls("reduce_scatter", "all_reduce", "all_gather", id="other calls", hint=(
            "Make the groups with dist.new_group, and use the library's reduce-scatter, all-reduce and all-gather in them, "
            "nothing else.")),
        Demand("mixed groups", "each collective stays in one node, or takes one rank of each", (
            "The sum is right, but a collective has several ranks of a node and of other nodes, too. There are two kinds of "
            "groups: all ranks of a node, which are neighbours, from node·node_size on; and the ranks with one local rank, "
            "node_size apart."), _in_node_or_rail, gate=True, for_right_values=True, forbids=True),
        Demand("whole arrays between nodes", "only shards travel between nodes", (
            "The sum is right, but more travels between nodes than an all-reduce of one shard: reduce-scatter inside the "
            "node first, and let only the shard leave it, in the group of the ranks with the same local rank."),
            _between_nodes, gate=True, for_right_values=True, forbids=True),
        bytes_sent(formula_bytes("all_reduce"), "at most 2(n−1)/n·M bytes in all",
                   "The sum is right and only shards leave the node, but inside it more travels than a reduce-scatter and "
                   "an all-gather of x: an all-reduce in the node sends twice what its reduce-scatter does."),
        results_waited(),
    ),
    symptoms=(
        unwaited(),
        Symptom("not everyone makes every group",
                "Ranks call new_group with different lists, or not equally often: every rank must call it for the groups of "
                "all nodes and all local ranks, in the same order, also for those that it is not in.", _groups_differ),
    ),
    fallbacks=(
        Symptom("another rank's group", "Some ranks take part in nothing: each rank uses the group of its own node and that "
                "of its own local rank (with a group that it is not in, a collective returns at once and does nothing).",
                _foreign_group),
    ),
)
