"""What exercises on FullyShard look at: what its ranks must exchange and may send, and hints that they share."""

import math

from grader.calling.sharding import dtype_of
from grader.exercises.technique.models import model_seen, reduced
from grader.exercises.technique.sharding import divided, freed_after_forward, gathers_and_reductions
from grader.judging.demands import bytes_sent, only_calls, results_waited, unchanged_under_way
from grader.judging.exercise import Demand, Look, Symptom
from grader.judging.needs import needs
from grader.judging.symptoms import group_ignored, unwaited


def _whole_bytes(look: Look, rank: int, computing: bool = False) -> float:
    """All parameters, padded; in the compute dtype or in their own."""
    dtype = dtype_of(look.case.inputs[rank]["compute_dtype"]) if computing else None
    n = look.case.group_size(rank)
    return sum((p.numel() + n) * (dtype or p.dtype).itemsize for p in model_seen(look.case, rank).parameters())


def needed(look: Look, rank: int) -> list[tuple[str, float]]:
    """In each step the parameters once, and the gradients."""
    inputs, trained = look.case.inputs[rank], reduced(look.case, rank)
    dtype, steps = dtype_of(inputs["compute_dtype"]), len(inputs["xs"]) // inputs["micro"]
    whole, gradients = (steps * sum(p.numel() * (dtype or p.dtype).itemsize for p in parameters)
                        for parameters in (model_seen(look.case, rank).parameters(), trained.values()))
    return [("all_gather", whole), ("reduce_scatter", gradients)]


def gathered(look: Look, rank: int) -> float:
    """Both looks at the whole parameters, and each pass's gathers."""
    inputs = look.case.inputs[rank]
    times = len(inputs["xs"]) * (1 + freed_after_forward(inputs)) + ("glance" in inputs)
    return (gathers_and_reductions(look, rank, _whole_bytes(look, rank), gathers=2, reductions=0)
            + gathers_and_reductions(look, rank, _whole_bytes(look, rank, computing=True), gathers=times, reductions=0))


def sent(look: Look, rank: int) -> float:
    """The start, all gathers, and each pass's reductions."""
    n, inputs = look.case.group_size(rank), look.case.inputs[rank]
    own, computing = _whole_bytes(look, rank), _whole_bytes(look, rank, computing=True)
    buffers = sum(b.nbytes for b in model_seen(look.case, rank).buffers())
    reductions = gathers_and_reductions(look, rank, computing, gathers=0, reductions=len(inputs["xs"]))
    start = math.ceil(math.log2(n)) * (own + buffers)  # what the root of a tree sends
    return start + gathered(look, rank) + reductions


def sent_in_gathers(look: Look, rank: int) -> float:
    return sum(call.bytes_formula for call in look.evidence.trace.of(rank, "all_gather"))


LIMITS = (  # of every wrapper of this kind
    needs(needed),
    only_calls("all_gather", "reduce_scatter", "broadcast"),
    Demand("parameters not divided", "between steps each rank holds its shard only", divided),
)
SENT = (
    bytes_sent(sent, "3Ψ a pass (2Ψ where layers stay gathered after forward)"),
    results_waited(),
    unchanged_under_way(),
)
SYMPTOMS = (
    Symptom("parameters not divided", lambda look: not divided(look)[0]),
    group_ignored(),
    unwaited(),
)
