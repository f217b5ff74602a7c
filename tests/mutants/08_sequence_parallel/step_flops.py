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
    change("model and hardware swapped", "float(model), float(model + again)", "float(model + again), float(model)"),
)
