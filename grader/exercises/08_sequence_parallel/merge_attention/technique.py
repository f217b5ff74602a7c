"""How merge_attention must be done, and how it can fail."""

from typing import Any

import torch

from grader.exercises.technique.sequences import first_wrong_is, other_numbers
from grader.judging.demands import inputs_kept, only_calls
from grader.judging.exercise import Look, Symptom, Technique
from grader.judging.symptoms import every_rank, raised


@every_rank
def _has_nan(look: Look, rank: int, found: Any, expected: Any) -> bool:
    return bool(not found["o"].isfinite().all() or found["lse"].isnan().any() or (found["lse"] == float("inf")).any())


def _is_plain(look: Look) -> bool:
    """Two parts, of which slips tell more."""
    inputs = look.case.inputs[0]
    return len(inputs["ks"]) == 2 and inputs["q"].dtype == torch.float64 and not _unseen_keys(look)


def _unseen_keys(look: Look) -> bool:
    return any(not seen.any(-1).all() for seen in look.case.inputs[0]["seen"])


TECHNIQUE = Technique(
    demands=(only_calls(id="communicates", hint="Merging is a rank's own work: no message is needed."),
             inputs_kept("The result is right, but a part that was handed in was overwritten, and others may still need it: "
                         "compute new tensors.", gate=True)),
    symptoms=(
        raised("must match the size", "The sizes do not fit: a weight for each query, (B, H, S), multiplies outputs of "
               "(B, H, S, K); give it a last dimension, weight[..., None].", "weights without a dimension"),
        *other_numbers(),
        Symptom("overflow", "Large scores overflow: exp(lse) of a score in the thousands is infinite. Only differences may "
                            "go into exp: subtract the larger lse first, as torch.logaddexp does.",
                lambda look: not _unseen_keys(look) and _has_nan(look)),
        Symptom("nothing seen", "Where neither part saw a key, both lse are −inf, and −inf − (−inf) is NaN: such a query "
                                "has output 0 and lse −inf.", lambda look: _unseen_keys(look) and _has_nan(look)),
    ),
    fallbacks=(
        Symptom("wrong lse", "o is right, lse is not, and the next merge needs it: lse = log(exp(lse1) + exp(lse2)), "
                             "computed safely.",
                lambda look: _is_plain(look) and first_wrong_is("lse")(look)),
        Symptom("wrong lse", "o is right, lse is not: it is −inf where neither part saw a key, and else "
                             "log(exp(lse1) + exp(lse2)), however large the scores are.", first_wrong_is("lse"), alone=True),
    ),
)
