"""Wrong tables of activations."""

from tests.mutants import change

CHANGES = (
    change("all divided", "10 + 24 / t", "34 / t"),
    change("linear inputs divided", "10 + 24 / t", "6 + 28 / t"),
    change("nothing divided more", "34 / t if sequence_parallel else ", ""),
    change("core not divided", "s / h / t", "s / h"),
    change("full divided", "(t if sequence_parallel else 1)", "t"),
    change("piece counted whole", " / (t if sequence_parallel else 1)", ""),
    change("full keeps nothing", "return 2 * s", "return 0 * s"),
    change("input of one byte", "return 2 * s", "return s"),
    change("mask of the core kept", "0 if recompute", "a * s / h / t if recompute"),
    change("less than the core again", "0 if recompute", "-6 / t if recompute"),
    change("masks divided", "10 + 24 / t", "8 + 26 / t"),
    change("rounded down", "34 / t", "34 // t"),
    change("none wrong", "5 * a * s / h", "5 * a * s * s / h"),
    change("selective wrong", "0 if recompute", "-10 / t if recompute"),
    change("full wrong", "return 2 * s", "return 34 * s"),
    change("linear wrong", "34 / t", "32 / t", "24 / t", "22 / t"),
    change("core kept", '0 if recompute == "selective" else ', ""),
)
