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


TECHNIQUE = replace(arithmetic(
    raised("to unpack", "three tensors"),
    raised("in-place", "changed in place"),
    Symptom("no gradient", wrong_ranks(_no_gradient)),
    fallbacks=(
        other_dtype(),
        Symptom("kept elsewhere", lambda look: first_wrong_is("kept")(look) and wrong_ranks(_shifted)(look)),
        Symptom("wrong experts", first_wrong_is("experts")),
        Symptom("wrong weights", first_wrong_is("weights")),
        Symptom("wrong kept", first_wrong_is("kept")),
        Symptom("wrong gradient", first_wrong_is("dlogits")),
    )), reading=_read)
