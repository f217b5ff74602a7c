"""How fit_alpha_beta can fail."""

import torch

from grader.judging.exercise import Look, Symptom, Technique
from grader.judging.symptoms import wrong_ranks


def _nearly(look: Look, rank: int, found: tuple, expected: tuple) -> bool:
    """Off by a little, or with an α that is nothing but rounding."""
    off = [abs(f - e) / abs(e) for f, e in zip(found, expected, strict=True)]
    return 1e-5 < max(off) < 1e-3 or 0 < abs(found[0]) < 1e-12


TECHNIQUE = Technique(
    symptoms=(
        Symptom("tensors", "The results are tensors: return plain numbers, tensor.item().",
                wrong_ranks(lambda look, r, found, _: any(isinstance(number, torch.Tensor) for number in found))),
    ),
    fallbacks=(
        Symptom("another fit", "Exact times give the right line, noisy ones do not: asked is ordinary least squares, over "
                "all measurements and with equal weights.", lambda look: "exact" not in look.case.name,
                refuted=lambda look: "exact" in look.case.name),
        Symptom("single precision", "α is lost, or some digits are: sizes reach 10⁷, beside which float32 cannot hold a "
                                    "column of ones; compute in float64 (torch.tensor(..., dtype=torch.float64)).",
                wrong_ranks(_nearly)),
    ),
)
