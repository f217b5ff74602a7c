"""How Zero2 must work, and how it can fail."""

from grader.calling.weighing import END, GRADIENT
from grader.evidence.evidence import RETURNED
from grader.exercises.technique import zero
from grader.exercises.technique.models import reduced
from grader.exercises.technique.rank_by_rank import on_each_rank, the_mark
from grader.exercises.technique.sharding import by_collectives, held_at_most
from grader.exercises.technique.training import dtypes_of, instead
from grader.exercises.technique.weights import models, weighs_at_most
from grader.judging.demands import bytes_sent, only_calls
from grader.judging.exercise import Demand, Look, Symptom
from grader.judging.symptoms import deadlocked, raised
from utils.costs.formulas import bytes_sent_per_rank

from .call import OF_16_BITS, STEPPED_IN, WAITING

STATE_TENSORS = {"AdamW": 2, "SGD": 1}  # of the parameter's size; SGD with momentum


def _steps(look: Look, rank: int) -> int:
    return len(look.case.inputs[rank]["xs"]) // look.case.inputs[rank]["micro"]


def _sent(look: Look, rank: int) -> float:
    total, passes = zero.padded_bytes(look, rank), len(look.case.inputs[rank]["xs"])
    checks = zero.check_bytes(look, rank, times=3)
    gathered = _steps(look, rank) * bytes_sent_per_rank("all_gather", total, look.case.group_size(rank))
    return gathered + passes * bytes_sent_per_rank("all_reduce", total, look.case.group_size(rank)) + checks


def _share(look: Look, rank: int) -> float:
    """State of one piece of each tensor."""
    n, of_each = look.case.group_size(rank), STATE_TENSORS[look.case.inputs[rank]["optimizer"]]
    return sum(of_each * -(-g.numel() // n) * g.itemsize + zero.STATE_SLACK_BYTES
               for g in reduced(look.case, rank).values())


def _room(look: Look, rank: int) -> float:
    """For the shards of gradients, and a gradient that the transport has not let go of yet, with its shard."""
    rows = zero.padded_rows(look, rank)
    return sum(rows) / look.case.group_size(rank) + 2 * max(rows, default=0)


def _taken(look: Look, rank: int) -> str:
    return zero.wrongly_taken(look, rank) if _offered(look, rank) else ""


def _offered(look: Look, rank: int) -> bool:
    """Whether other modules are offered beside the case's."""
    return look.case.inputs[rank]["model"] == "linear"


def _shortened(look: Look, rank: int) -> str:
    """Types that no shard has, though parameters do, or that shards of a module of bfloat16 have."""
    missing = dtypes_of(look, rank) - set(the_mark(look, rank, STEPPED_IN)["dtypes"])
    faults = [f"no shard is {dtype}" for dtype in sorted(missing)]
    if _offered(look, rank):
        others = set(the_mark(look, rank, OF_16_BITS)["dtypes"]) - {"bfloat16"}
        faults += [f"of a module of bfloat16 a shard is {dtype}" for dtype in sorted(others)]
    return f"rank {rank}: {', '.join(faults)}" if faults else ""


SHARDS = 4  # of parameters, of gradients, and of AdamW's two
OWN_DTYPES = zero.own_dtypes()
TECHNIQUE = by_collectives(
    zero.trained_needed(_steps, "all_reduce", "all_gather"),
    zero.something_sharded(),
    zero.state_kept(),
    only_calls("all_reduce", "all_gather", "broadcast"),
    zero.state_divided(_share),
    zero.nothing_else_kept(),
    held_at_most("gradients kept", [WAITING], _room, "a backward pass leaves shards only"),
    *weighs_at_most(dict.fromkeys((GRADIENT, END), models(1.5, each_share=SHARDS))),
    OWN_DTYPES,
    Demand("shards of another type", "each shard has its parameter's dtype", on_each_rank(_shortened)),
    Demand("accepted", "a module whose parameters differ between ranks, or with nothing to train, is a ValueError",
           on_each_rank(_taken)),
    bytes_sent(_sent, "one all-gather of Ψ a step, and what the buckets send"),
    symptoms=(
        instead(OWN_DTYPES),
        zero.group_demanded(),
        deadlocked("", "not all take part"),
        zero.drifted("ranks drift apart", lambda parameters: parameters),
        zero.other_type(),
        zero.misfit(),
        raised("empty parameter list", "no shards of padding"),
        zero.raised_any("no gradient", "KeyError", "NoneType"),
    ),
    fallbacks=(
        Symptom("zeros for None", lambda look: look.evidence.ending == RETURNED and zero.has_rests(look),
                refuted=lambda look: not zero.has_rests(look), weak=True),
    ),
)
