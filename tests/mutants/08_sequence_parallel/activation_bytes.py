"""Wrong tables of activations."""

from tests.mutants import change

CHANGES = (
    change("all divided", "10 + 24 / t", "34 / t"),
    change("linear inputs divided", "10 + 24 / t", "6 + 28 / t"),
    change("nothing divided more", "34 / t if sequence_parallel else ", ""),
    change("core not divided", "s / h / t", "s / h"),
    change("full divided", "return 2 * s * b * h", "return 2 * s * b * h / t"),
    change("full keeps nothing", "return 2 * s * b * h", "return 0"),
    change("core kept", '0 if recompute == "selective" else ', ""),
)
