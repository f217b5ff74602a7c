"""What is demanded of case_7, and how it can fail."""

from grader.exercises.technique.hunted import PASSES_TRAINED, repaired
from grader.exercises.technique.rank_by_rank import on_each_rank, spans_if_any
from grader.judging.exercise import Demand, Look
from grader.judging.needs import each_way
from grader.judging.symptoms import raised
from utils.costs.formulas import bytes_sent_per_rank
from utils.models.hunted import PASS, VOCABULARY, WIDTH

ITEM_BYTES = 8


def _limit(look: Look, rank: int) -> float:
    """Outputs to the stage behind, gradients to the stage before, and once a step the table's gradient between the ends."""
    last, steps = look.case.world_size - 1, look.case.inputs[rank]["steps"]
    rows = sum(len(x) for (x,), _ in steps)
    table = bytes_sent_per_rank("all_reduce", VOCABULARY * WIDTH * ITEM_BYTES, 2) if last and rank in (0, last) else 0
    return rows * WIDTH * ITEM_BYTES * ((rank < last) + (rank > 0)) + len(steps) * table


def _not_seen(look: Look, rank: int) -> str:
    done = "".join(span.facts["kind"] for span in spans_if_any(look, rank, PASS))
    return "" if done == "FB" * len(look.case.inputs[rank]["steps"]) else f"rank {rank} did {done or 'nothing'}"


TECHNIQUE = repaired(
    _limit,
    each_way(_limit),
    Demand("passes not seen", "each stage goes forward and backward, by hunted.Passes",
           "The passes of the stages are not seen: leave them to hunted.Passes; what is missing comes after them.",
           on_each_rank(_not_seen), gate=True),
    PASSES_TRAINED,
    symptoms=(
        raised("would send to itself", "A single rank is both ends at once: its table has its whole gradient already, and "
                                       "there is nobody to exchange it with.", "alone"),
        raised("has no attribute 'table'", "A stage between the ends is asked for its table, and has none: only the first "
                                           "and the last take part (ends is None elsewhere).", "stages between"),
    ),
)
