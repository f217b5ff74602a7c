"""Wrong counts of what a block keeps."""

from tests.mutants import change

MASKS = ('"attention.dropout": ', '"attention_dropout": ', '"mlp_dropout": ')


def _masks_times(factor: int) -> list[str]:
    return [text for mask in MASKS for text in (mask, f"{mask}{factor} * ")]


CHANGES = (
    change("wide mask", *_masks_times(2)),
    change("numbers for bytes", "2 * x", "x", "6 * x", "3 * x", "8 * x", "4 * x", "2 * weights", "weights"),
    change("float32", "2 * x", "4 * x", "6 * x", "12 * x", "8 * x", "16 * x", "2 * weights", "4 * weights"),
    change("dropout keeps its input", *_masks_times(3)),
    change("width forgotten", "8 * x", "2 * x"),
    change("dropped weights forgotten", '"attention.mix": 2 * weights', '"attention.mix": 0'),
    change("one of three", "6 * x", "2 * x"),
    change("norms forgotten", '"attention_norm": 2 * x', '"attention_norm": 0', '"mlp_norm": 2 * x', '"mlp_norm": 0'),
    change("one head", "a * s * s * b", "s * s * b"),
    change("another part", '"gelu": 8 * x', '"gelu": 0'),
)
