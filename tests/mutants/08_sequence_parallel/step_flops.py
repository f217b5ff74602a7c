"""Wrong counts of a step's FLOPs."""

from tests.mutants import change

CHANGES = (
    change("forward only", "3 * (", "("),
    change("multiplications only", "float(model), float(model + again)", "model / 2, (model + again) / 2"),
    change("logits forgotten", "2 * b * s * h * vocabulary", "0"),
    change("causal halving", "4 * b * s * s * h", "2 * b * s * s * h"),
    change("attention forgotten", "4 * b * s * s * h", "0"),
    change("recompute forgotten", "model + again", "model"),
    change("recomputed twice", "model + again", "model + 2 * again"),
    change("logits again", '"full": layer}', '"full": layer + 2 * b * s * h * vocabulary / layers}'),
    change("a whole step again", '"selective": core', '"selective": 3 * core'),
    change("logits forward only", "3 * (layers * layer + 2 * b * s * h * vocabulary)",
           "3 * layers * layer + 2 * b * s * h * vocabulary"),
    change("logits of every layer", "2 * b * s * h * vocabulary", "2 * layers * b * s * h * vocabulary"),
    change("backward once", "3 * (", "2 * ("),
    change("weights at half", "24 *", "12 *"),
    change("batch twice", "core = 4 * b * s", "core = 4 * b * b * s"),
    change("model runs again", "float(model),", "float(model + again),"),
    change("only what runs again", "float(model + again)", "float(again)"),
    change("one layer again", "again = layers *", "again ="),
    change("half of the core again", '"selective": core', '"selective": core / 2'),
    change("full without the core", '"full": layer', '"full": layer - core'),
    change("wrong hardware", '"full": layer', '"full": 3 * layer'),
    change("wrong model", "24 *", "8 *"),
    change("model and hardware swapped", "float(model), float(model + again)", "float(model + again), float(model)"),
)
