"""How broadcast_model must be done, and how it can fail."""

from torch import Tensor

from grader.calling.training import REPLACED
from grader.exercises.technique.models import model_seen
from grader.exercises.technique.rank_by_rank import on_each_rank, the_mark
from grader.exercises.technique.training import FEW_DIGITS, model_bytes
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, only_calls, results_waited
from grader.judging.exercise import Demand, Look, Symptom, Technique
from grader.judging.needs import needs
from grader.judging.symptoms import group_ignored, unwaited, wrong_ranks
from utils.costs.formulas import bytes_sent_per_rank


def _bytes(look: Look, rank: int) -> int:
    """Of all calls."""
    return model_bytes(look, rank) * (2 if look.case.inputs[rank]["again"] else 1)


def _replaced(look: Look, rank: int) -> str:
    names = the_mark(look, rank, REPLACED)["names"]
    return f"rank {rank}: {names[0]} is another tensor" if names else ""


def _some_layers(look: Look, rank: int, found: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    """Of the parameters that are trained, some are right and some are as the rank drew them."""
    own = {name: p for name, p in model_seen(look.case, rank).named_parameters() if p.requires_grad}
    wrong = [name for name in own if not same(found[name], right[name])]
    return 0 < len(wrong) < len(own) and all(same(found[name], own[name]) for name in wrong)


TECHNIQUE = Technique(
    demands=(
        needs(lambda look, r: [("recv" if look.case.group_rank(r) else "send", _bytes(look, r))]),
        only_calls("broadcast"),
        Demand(REPLACED, "the parameters stay the same objects", on_each_rank(_replaced)),
        bytes_sent(lambda look, r: bytes_sent_per_rank("broadcast", _bytes(look, r), look.case.group_size(r)),
                   "every parameter and buffer once", id="sent twice"),
        results_waited(),
    ),
    symptoms=(
        group_ignored(),
        unwaited(),
        Symptom("layers forgotten", wrong_ranks(_some_layers)),
    ),
    fallbacks=(FEW_DIGITS,),
)
