"""How ring_reduce_scatter must be done, and how it can fail."""

from grader.exercises.technique.collectives import around_a_ring, formula_bytes, needed, out_of_step
from grader.exercises.technique.rank_by_rank import on_each_rank
from grader.judging.demands import bytes_sent, inputs_kept, not_far_more_bytes
from grader.judging.exercise import Demand, Look

_NEEDED_BYTES = formula_bytes("reduce_scatter")


def _brought_home(look: Look, rank: int) -> str:
    n, row_bytes = look.case.group_size(rank), look.case.inputs[rank]["x"][0].nbytes
    brought = n > 1 and [call.bytes for call in look.evidence.trace.of(rank, "send")] == [row_bytes] * n
    return f"rank {rank} sent {n} rows, wanted {n - 1}" if brought else ""


def _in_own_type(look: Look) -> tuple[bool, str]:
    for call in look.evidence.trace.of(op="send"):
        if call.dtype != (own := str(look.case.inputs[call.rank]["x"].dtype).removeprefix("torch.")):
            return False, f"rank {call.rank} sent {call.dtype}, its x is {own}"
    return True, ""


TECHNIQUE = around_a_ring(
    needed("reduce_scatter"),
    Demand("widened", "partial sums travel in x's dtype", _in_own_type, forbids=True),
    Demand("one hop too many", "n−1 rows leave each rank", on_each_rank(_brought_home), forbids=True),
    bytes_sent(_NEEDED_BYTES, "at most (n−1)/n·M bytes", id="whole tensors"),
    not_far_more_bytes(_NEEDED_BYTES),
    inputs_kept(),
    fallbacks=(
        out_of_step(),
    ),
)
