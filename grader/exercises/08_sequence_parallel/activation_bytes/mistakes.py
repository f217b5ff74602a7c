"""Wrong tables of activations."""

from grader.exercises.references import change

OF_FULL = "(t if sequence_parallel else 1)"
WAYS = "34 / t if sequence_parallel else 10 + 24 / t"

CHANGES = (
    change("all divided", WAYS, "34 / t"),
    change("all divided", "10 + 24 / t", "6 + 28 / t"),
    change("all divided", "10 + 24 / t", "8 + 26 / t"),
    change("nothing divided more", WAYS, "10 + 24 / t"),
    change("rounded down", "34 / t", "34 // t", "24 / t", "24 // t"),
    change("rounded down", "34 / t", "34 // t"),
    change("rounded down", "5 * a * s / h / t", "5 * a * s // (h * t)"),
    change("full wrong", OF_FULL, "t"),
    change("full wrong", OF_FULL, "1"),
    change("full wrong", "return 2 * s", "return 0 * s"),
    change("full wrong", "return 2 * s", "return s"),
    change("full wrong", "return 2 * s", "return 34 * s"),
    change("selective wrong", '0 if recompute == "selective" else ', ""),
    change("selective wrong", "0 if recompute", "a * s / h / t if recompute"),
    change("selective wrong", "0 if recompute", "-6 / t if recompute"),
    change("selective wrong", "0 if recompute", "-10 / t if recompute"),
    change("none wrong", "s / h / t", "s / h"),
    change("none wrong", "5 * a * s / h", "5 * a * s * s / h"),
    change("linear wrong", "34 / t", "32 / t", "24 / t", "22 / t"),
)
