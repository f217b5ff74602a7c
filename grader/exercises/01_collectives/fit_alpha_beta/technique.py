"""How fit_alpha_beta can fail."""

from grader.judging.exercise import Look, Symptom, Technique
from grader.judging.symptoms import wrong_ranks


def _nearly(look: Look, rank: int, found: tuple, expected: tuple) -> bool:
    """Off by a little, or with an α that is nothing but rounding."""
    off = [abs(f - e) / abs(e) for f, e in zip(found, expected, strict=True)]
    return 1e-5 < max(off) < 1e-3 or 0 < abs(found[0]) < 1e-12


TECHNIQUE = Technique(
    fallbacks=(
        Symptom("another fit", lambda look: "exact" not in look.case.name, refuted=lambda look: "exact" in look.case.name),
        Symptom("single precision", wrong_ranks(_nearly)),
    ),
)
