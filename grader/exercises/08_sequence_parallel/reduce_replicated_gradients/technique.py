"""How reduce_replicated_gradients must be done, and how it can fail."""

from typing import Any

import torch
from torch import Tensor

from grader.exercises.technique.sequences import other_numbers
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, only_calls, results_waited
from grader.judging.exercise import Demand, Look, Symptom, Technique
from grader.judging.general import IN_GROUPS_ONLY
from grader.judging.needs import needs
from grader.judging.symptoms import group_ignored, raised, unwaited, wrong_ranks
from utils.costs.formulas import bytes_sent_per_rank


def _calls(look: Look, rank: int) -> int:
    return 2 if "before" in look.case.inputs[rank] else 1


def _bytes(look: Look, rank: int) -> int:
    """Of the gradients of all calls."""
    return _calls(look, rank) * sum(g.nbytes for g in look.case.inputs[rank]["gradients"] if g is not None)


def _limit(look: Look, rank: int) -> float:
    return bytes_sent_per_rank("all_reduce", _bytes(look, rank), look.case.group_size(rank))


def _one_message(look: Look) -> tuple[bool, str]:
    for rank in look.working:
        count = len(look.evidence.trace.of(rank))
        if count > _calls(look, rank):
            return False, f"rank {rank} made {count} calls, in {_calls(look, rank)} of the function"
    return True, ""


def _only_moved(look: Look, rank: int, found: Any, expected: Any) -> bool:
    """The right numbers, in other places."""
    return same(_sorted(found), _sorted(expected))


def _sorted(gradients: list[Tensor | None]) -> Tensor:
    return torch.cat([g.flatten() for g in gradients if g is not None]).sort().values


TECHNIQUE = Technique(
    demands=(
        needs(lambda look, r: [("all_reduce", _bytes(look, r))]),
        only_calls("all_reduce"),
        Demand("too many messages", "one message for all gradients", _one_message, forbids=True),
        bytes_sent(_limit, "2(n−1)/n of the gradients' bytes"),
        results_waited(),
    ),
    symptoms=(
        group_ignored(),
        unwaited(),
        *other_numbers(),
        raised("NoneType", "no gradient"),
        raised("Expected all tensors", "no gradient"),
    ),
    fallbacks=(
        IN_GROUPS_ONLY,
        raised("is invalid for input of size", "pieces do not fit"),
        raised("must match the size", "pieces do not fit"),
        Symptom("pieces mixed up", wrong_ranks(_only_moved)),
    ),
)
