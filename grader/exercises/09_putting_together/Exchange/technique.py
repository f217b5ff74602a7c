"""How Exchange must be done, and how it can fail."""

from typing import Any

import torch
from torch import Tensor

from grader.calling.sequences import BACKWARD, FORWARD
from grader.evidence.case import Case
from grader.evidence.evidence import DEADLOCKED, RETURNED
from grader.exercises.technique.sequences import first_wrong_is, function_symptoms
from grader.exercises.technique.splitting import calls_are, other_dtype, sent_at_most
from grader.judging.demands import only_calls, results_waited
from grader.judging.exercise import Look, Symptom, Technique
from grader.judging.general import IN_GROUPS_ONLY
from grader.judging.needs import each_way, needs
from grader.judging.symptoms import raised


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


_BYTES = "The result is right, but more is sent than the rows{} that go to other ranks: do not pad pieces to one size."
def _differ(look: Look) -> bool:
    return look.evidence.ending == DEADLOCKED and "splits" in look.evidence.error_kind


_SPLITS = ("What a rank sends and what the other expects differ: a rank receives as many rows as came_ne says and sends as "
           "many as counts_ne says, summed over experts. In backward it is the other way round, with that call's numbers: "
           "keep them in ctx.")

TECHNIQUE = Technique(
    demands=(
        needs(each_way(_needed)),
        only_calls("all_to_all", hint="All-to-alls are enough: each rank tells each other one how many rows come, and sends "
                                      "them. Nobody needs what is for somebody else."),
        calls_are(FORWARD, {"all_to_all": 2}, "The result is right, but forward takes two all-to-alls: numbers, then rows."),
        calls_are(BACKWARD, {"all_to_all": 1}, "The result is right, but backward takes one all-to-all: how many rows go "
                                               "where is known from forward."),
        sent_at_most(FORWARD, _forward, "forward: rows and numbers for others", _BYTES.format(" and numbers"),
                     "too many bytes"),
        sent_at_most(BACKWARD, _backward, "backward: gradients for others", _BYTES.format("' gradients"),
                     "too many bytes back"),
        results_waited(),
    ),
    symptoms=(
        Symptom("splits differ", _SPLITS, _differ),
        *(raised(text, _SPLITS, "splits do not fit") for text in ("Split sizes", "split sizes", "split_with_sizes")),
        *function_symptoms("drows_RD, None, None"),
        raised("takes 2 positional arguments but 3", "backward gets a gradient for each of forward's two results: take "
               "both, and ignore the second.", "one gradient taken"),
        Symptom("rows left out", "Some rank leaves out an all-to-all that the others make, so theirs meets its next one, of "
                "counts with rows: every rank makes every call, with no rows too.",
                lambda look: look.evidence.ending != RETURNED and "dtype" in look.evidence.error_kind),
        other_dtype(),
    ),
    fallbacks=(
        IN_GROUPS_ONLY,
        Symptom("wrong rows", "received is wrong: rank 0's rows for you first, then rank 1's, each in the order in which "
                              "they lay there.", first_wrong_is("received")),
        Symptom("wrong counts", "The rows are right, came is not: came_ne[s] is rank s's counts_ne[your rank], e "
                                "numbers, not their sum.",
                first_wrong_is("came")),
        Symptom("wrong gradient", "The rows are right, their gradient is not: each row's gradient goes back to where the "
                                  "row came from.", first_wrong_is("drows")),
    ),
    reading=_read,
)
