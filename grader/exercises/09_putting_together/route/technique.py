"""How route must be done, and how it can fail."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from grader.evidence.case import Case
from grader.exercises.technique.arithmetic import arithmetic
from grader.exercises.technique.sequences import first_wrong_is
from grader.exercises.technique.splitting import other_dtype
from grader.judging.exercise import Look, Symptom
from grader.judging.symptoms import raised, wrong_ranks

ROUNDED = 0.01  # bfloat16's weights, which are at most 1


def _read(case: Case, found: dict[str, Any]) -> dict[str, Any]:
    """Experts in any whole numbers, kept as 0 and 1 too."""
    experts, kept = found["experts"], found["kept"]
    if isinstance(experts, Tensor) and not experts.is_floating_point():
        experts = experts.long()
    if isinstance(kept, Tensor) and kept.dtype != torch.bool and bool(((kept == 0) | (kept == 1)).all()):
        kept = kept.bool()
    return found | {"experts": experts, "kept": kept}


def _no_gradient(look: Look, rank: int, found: Any, right: Any) -> bool:
    return found["dlogits"] is None and isinstance(found["weights"], Tensor) and (
        found["weights"].shape == right["weights"].shape)


def _shifted(look: Look, rank: int, found: Any, right: Any) -> bool:
    """kept of the right number of choices, but standing elsewhere."""
    return found["kept"].shape == right["kept"].shape and int(found["kept"].sum()) == int(right["kept"].sum())


def _another_queue(look: Look, rank: int, found: Any, right: Any) -> bool:
    """Each expert takes as many as it should, but others."""
    return torch.equal(*(right["experts"][kept].sort().values for kept in (found["kept"], right["kept"])))


def _where_dropped(look: Look, rank: int, found: Any, right: Any) -> bool:
    """Weights are wrong only of tokens of which a choice is dropped."""
    wrong = ~((found["weights"] - right["weights"]).abs() < ROUNDED).all(1)
    return bool(wrong.any()) and not bool((wrong & right["kept"].all(1)).any())


TECHNIQUE = replace(arithmetic(
    raised("to unpack", "three tensors"),
    raised("in-place", "changed in place"),
    Symptom("no gradient", wrong_ranks(_no_gradient)),
    fallbacks=(
        other_dtype(),
        Symptom("another queue", lambda look: first_wrong_is("kept")(look) and wrong_ranks(_another_queue)(look)),
        Symptom("kept elsewhere", lambda look: first_wrong_is("kept")(look) and wrong_ranks(_shifted)(look)),
        Symptom("wrong experts", first_wrong_is("experts")),
        Symptom("weights of the kept", lambda look: first_wrong_is("weights")(look) and wrong_ranks(_where_dropped)(look)),
        Symptom("wrong weights", first_wrong_is("weights")),
        Symptom("wrong kept", first_wrong_is("kept")),
        Symptom("wrong gradient", first_wrong_is("dlogits")),
    )), reading=_read)
