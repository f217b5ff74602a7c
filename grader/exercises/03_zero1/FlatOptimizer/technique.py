"""How FlatOptimizer must work, and how it can fail."""

from collections import Counter
from dataclasses import replace

from torch import nn

from grader.calling.training import options_of
from grader.calling.weighing import END
from grader.evidence.evidence import RETURNED
from grader.exercises.technique import zero
from grader.exercises.technique.models import model_seen
from grader.exercises.technique.rank_by_rank import on_each_rank, spans_called, spans_if_any, the_mark
from grader.exercises.technique.sharding import by_collectives, gathers_and_reductions
from grader.exercises.technique.training import instead
from grader.exercises.technique.weights import models, weighs_at_most
from grader.judging.demands import bytes_sent
from grader.judging.exercise import Demand, Look, Symptom
from grader.judging.symptoms import deadlocked, raised

from .call import IN_16_BITS, MADE, MADE_IN_16_BITS, STEP, WITHOUT

WANTED = {"reduce_scatter": 1, "all_gather": 1}
NUMBER_BYTES = 16  # of state, for a number of padding


def _calls_of_steps(look: Look, rank: int) -> list[Counter[str]]:
    """How often a rank called what, step by step; a barrier brings nobody any numbers."""
    calls, steps = look.evidence.trace.of(rank), spans_called(look, rank, STEP)
    return [Counter(c.op for c in calls if step.start_s <= c.start_s <= step.end_s and c.op != "barrier") for step in steps]


def _only_both() -> Demand:
    """Gate: no other collective in any step."""

    def fault(look: Look, rank: int) -> str:
        others = {op for made in _calls_of_steps(look, rank) for op in made} - WANTED.keys()
        return f"rank {rank} used {', '.join(sorted(others))}" if others else ""

    return Demand("library call", "only reduce_scatter and all_gather in a step", on_each_rank(fault), gate=True)


def _one_of_each() -> Demand:
    """Each step makes one reduce-scatter and one all-gather; one rank alone may make none."""

    def fault(look: Look, rank: int) -> str:
        steps = _calls_of_steps(look, rank)
        wrong = [made for made in steps if made != WANTED]
        if look.case.group_size(rank) == 1 or (steps and not wrong):
            return ""
        seen = " and ".join(f"{count} {op}" for op, count in sorted(wrong[0].items())) if wrong else ""
        return f"rank {rank}: {seen or 'no collective'} in a step"

    return Demand("several calls", "one reduce-scatter and one all-gather a step", on_each_rank(fault))


def _state_divided() -> Demand:
    """Each rank's torch optimizer holds an n-th of the state, give or take the padding."""

    def fault(look: Look, rank: int) -> str:
        held, whole = zero.state_held(look, rank), sum(zero.whole_state(look, rank))
        allowed = whole / look.case.group_size(rank) + NUMBER_BYTES + zero.STATE_SLACK_BYTES
        return "" if 0 < held <= allowed else f"rank {rank} holds {held:,} B of {whole:,} B, allowed {allowed:,.0f} B"

    return Demand("state not divided", "each rank's optimizer holds one n-th of the state", on_each_rank(fault))


def _whole_piece() -> Demand:
    """The inner optimizer has one parameter, of as many numbers on every rank."""

    def fault(look: Look, rank: int) -> str:
        wanted = _padded_bytes(look, rank) // look.case.group_size(rank) // _trained(look, rank)[0].itemsize
        made = [one.facts["numbers"] for one in spans_called(look, rank, MADE)]
        wrong = [numbers for numbers in made if numbers != [wanted]]
        return f"rank {rank}: one of {wrong[0]} elements, wanted one parameter of {wanted}" if wrong else ""

    return Demand("piece without padding", "optimizer_class gets one parameter of ⌈Ψ/n⌉ elements", on_each_rank(fault))


def _fault_of_options(look: Look, rank: int) -> str:
    named = options_of(look.case.inputs[rank])
    own = [name for one in spans_if_any(look, rank, MADE) for name in one.facts["options"] if name not in named]
    return f"rank {rank} was made with {own[0]}, which nobody gave" if own else ""


OWN_OPTIONS = Demand("options of its own", "the inner optimizer gets **options and nothing else",
                     on_each_rank(_fault_of_options), forbids=True)


def _in_other_digits(look: Look, rank: int) -> str:
    if look.case.group_size(rank) > 1:
        return ""
    dtypes = {dtype for one in spans_called(look, rank, MADE_IN_16_BITS) for dtype in one.facts["dtypes"]}
    return f"rank {rank}: of parameters of bfloat16 the shard is {', '.join(dtypes)}" if dtypes - {"torch.bfloat16"} else ""


def _stood_still(look: Look, rank: int) -> str:
    stood = look.case.group_size(rank) == 1 and not the_mark(look, rank, WITHOUT)["moved"]
    return f"rank {rank}: without a gradient nothing moved" if stood else ""


OWN_TYPE = Demand("piece of another type", "the shard has the parameters' dtype", on_each_rank(_in_other_digits))


def _trained(look: Look, rank: int) -> list[nn.Parameter]:
    return [p for p in model_seen(look.case, rank).parameters() if p.requires_grad]


def _padded_bytes(look: Look, rank: int) -> int:
    """The flat buffer of all that is trained, padded once."""
    trained, n = _trained(look, rank), look.case.group_size(rank)
    return -(-sum(p.numel() for p in trained) // n) * n * trained[0].itemsize


def _padded_once() -> Demand:
    """The rows that are reduced have as many bytes as that; one rank alone may reduce none."""

    def fault(look: Look, rank: int) -> str:
        rows = sorted({call.bytes_given for call in look.evidence.trace.of(rank, "reduce_scatter")})
        if look.case.group_size(rank) == 1 or rows == [_padded_bytes(look, rank)]:
            return ""
        return f"rank {rank}: flat buffers of {' and '.join(map(str, rows)) or 'no'} B, wanted {_padded_bytes(look, rank)} B"

    return Demand("padded too often", "the flat buffer is padded once, at its end", on_each_rank(fault))


def _sent(look: Look, rank: int) -> float:
    steps = len(look.case.inputs[rank]["xs"])
    return steps * gathers_and_reductions(look, rank, _padded_bytes(look, rank)) + zero.check_bytes(look, rank)


TECHNIQUE = by_collectives(
    zero.trained_needed(lambda look, r: len(look.case.inputs[r]["xs"]), "reduce_scatter", "all_gather"),
    _only_both(),
    zero.something_sharded(),
    zero.state_kept(),
    _state_divided(),
    *weighs_at_most({END: models(2, each_share=5)}),
    _one_of_each(),
    zero.own_dtypes(IN_16_BITS),
    _padded_once(),
    _whole_piece(),
    OWN_OPTIONS,
    OWN_TYPE,
    Demand("nothing done without gradients", "a step without any gradient lets weight decay go on",
           on_each_rank(_stood_still)),
    bytes_sent(_sent, "2(n−1)/n of the flat buffer's bytes a step"),
    symptoms=(
        instead(OWN_OPTIONS),
        replace(raised("NoneType", "no gradient"),  # a rank alone makes a step more, in which nothing has one
                refuted=lambda look: look.case.world_size > 1 and not zero.has_rests(look)),
        replace(raised("non-empty list", "generator"), alone=True),
        zero.other_type(),
        Symptom("group ignored", lambda look: look.evidence.ending != RETURNED and zero.misfit().matches(look),
                refuted=lambda look: look.case.groups is None),
        zero.misfit(),
        deadlocked("size differs", zero.misfit().id),
        zero.drifted("parameters not gathered", lambda result: result["parameters"]),
    ),
)
