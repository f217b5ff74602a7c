"""How Exchange must be done, and how it can fail."""

from typing import Any

import torch
from torch import Tensor

from grader.calling.sequences import BACKWARD, FORWARD
from grader.evidence.case import Case
from grader.evidence.evidence import DEADLOCKED, RETURNED
from grader.exercises.technique.sequences import first_wrong_is, function_symptoms
from grader.exercises.technique.splitting import calls_are, other_dtype, sent_at_most
from grader.judging.compare import same
from grader.judging.demands import only_calls, results_waited
from grader.judging.exercise import Look, Symptom, Technique
from grader.judging.general import IN_GROUPS_ONLY
from grader.judging.needs import each_way, needs
from grader.judging.symptoms import raised, wrong_ranks


def _read(case: Case, found: dict[str, Any]) -> dict[str, Any]:
    """What came, in a list or in any whole numbers."""
    came = found["came"]
    came = came.long() if isinstance(came, Tensor) and not came.is_floating_point() else came
    return found | {"came": torch.tensor(came) if isinstance(came, (list, tuple)) else came}


def _row_bytes(look: Look, rank: int) -> int:
    rows = look.case.inputs[rank]["rows"]
    return rows.shape[1] * rows.itemsize


def _forward(look: Look, rank: int) -> float:
    """The rows and counts for other ranks."""
    counts, r = look.case.inputs[rank]["counts"], look.case.group_rank(rank)
    rows = int(counts.sum() - counts[r].sum())
    return rows * _row_bytes(look, rank) + counts.nbytes - counts[r].nbytes


def _backward(look: Look, rank: int) -> float:
    """The gradients of rows that came from other ranks."""
    r = look.case.group_rank(rank)
    rows = sum(int(look.case.inputs[member]["counts"][r].sum()) for member in look.case.members(rank) if member != rank)
    return rows * _row_bytes(look, rank)


def _needed(look: Look, rank: int) -> float:
    """Rows there, gradients back: for others and from them."""
    counts, r = look.case.inputs[rank]["counts"], look.case.group_rank(rank)
    return int(counts.sum() - counts[r].sum()) * _row_bytes(look, rank) + _backward(look, rank)


def _sorted_by_expert(look: Look, rank: int, found: Any, right: Any) -> bool:
    """What came, but all ranks' rows for the first expert first."""
    n, e = right["came"].shape
    experts = torch.arange(e).repeat(n).repeat_interleave(right["came"].flatten())
    return same(found["received"], right["received"][experts.argsort(stable=True)])


def _differ(look: Look) -> bool:
    return look.evidence.ending == DEADLOCKED and "splits" in look.evidence.error_kind


TECHNIQUE = Technique(
    demands=(
        needs(each_way(_needed)),
        only_calls("all_to_all"),
        calls_are(FORWARD, {"all_to_all": 2}),
        calls_are(BACKWARD, {"all_to_all": 1}),
        sent_at_most(FORWARD, _forward, "forward: rows and numbers for others", "too many bytes"),
        sent_at_most(BACKWARD, _backward, "backward: gradients for others", "too many bytes back"),
        results_waited(),
    ),
    symptoms=(
        *function_symptoms(),
        Symptom("splits differ", _differ),
        *(raised(text, "splits differ") for text in ("Split sizes", "split sizes", "split_with_sizes")),
        raised("takes 2 positional arguments but 3", "one gradient taken"),
        Symptom("rows left out", lambda look: look.evidence.ending != RETURNED and "dtype" in look.evidence.error_kind),
        other_dtype(),
    ),
    fallbacks=(
        IN_GROUPS_ONLY,
        Symptom("sorted by expert", wrong_ranks(_sorted_by_expert)),
        Symptom("wrong rows", first_wrong_is("received")),
        Symptom("wrong counts", first_wrong_is("came")),
        Symptom("wrong gradient", first_wrong_is("drows")),
    ),
    reading=_read,
)
