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
    raised("to unpack", "Return three tensors: experts, weights, kept, each (T, k).", "three tensors"),
    raised("in-place", "The logits are somebody else's, and have a gradient: work on a copy, or mask with masked_fill.",
           "changed in place"),
    Symptom("no gradient", "No gradient reaches the logits: make the weights from the logits that topk gives, without "
                           "detach, no_grad or a plain number in between. Else the router never learns.",
            wrong_ranks(_no_gradient)),
    fallbacks=(
        other_dtype("A result has another dtype than it should: weights have that of the logits, experts are int64, kept is "
                    "bool."),
        Symptom("kept elsewhere", "As many choices are kept as should be, but others: back from the queue, view it as "
                                  "(k, T) and transpose; view(T, k) mixes tokens and choices.",
                lambda look: first_wrong_is("kept")(look) and wrong_ranks(_shifted)(look)),
        Symptom("wrong experts", "experts is wrong: (T, k), of each token the numbers of the largest logits, in their "
                                 "order.", first_wrong_is("experts")),
        Symptom("wrong weights", "experts is right, weights is not: the softmax over each token's k chosen logits.",
                first_wrong_is("weights")),
        Symptom("wrong kept", "experts and weights are right, kept is not: write down the queue of one expert by hand, and "
                              "compare.", first_wrong_is("kept")),
        Symptom("wrong gradient", "The weights are right, their gradient is not: it goes through the softmax of the chosen "
                                  "logits, and nowhere else.", first_wrong_is("dlogits")),
    )), reading=_read)
