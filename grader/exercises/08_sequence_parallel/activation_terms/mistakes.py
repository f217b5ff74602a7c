"""Wrong counts of what a block keeps."""

from grader.exercises.references import change

MASKS = ('"attention.dropout": ', '"attention_dropout": ', '"mlp_dropout": ')
IN_FLOAT32 = ("2 * x", "4 * x", "6 * x", "12 * x", "8 * x", "16 * x", "2 * weights", "4 * weights")


def _masks_times(factor: int) -> list[str]:
    return [text for mask in MASKS for text in (mask, f"{mask}{factor} * ")]


CHANGES = (
    change("numbers for bytes", "2 * x", "x", "6 * x", "3 * x", "8 * x", "4 * x", "2 * weights", "weights"),
    change("float32", *IN_FLOAT32),
    change("float32", *IN_FLOAT32, *_masks_times(2)),
    change("one head", "a * s * s * b", "s * s * b"),
    change("causal halving", "a * s * s * b", "a * s * s * b / 2"),
    change("causal halving", '"attention.softmax": 2 * weights', '"attention.softmax": weights'),
    change("other names", "attention.", "attention_"),
    change("attention_norm keeps", '"mlp_norm": 2 * x', '"mlp_norm": 4 * x'),
    change("attention_norm keeps", '"attention_norm": 2 * x', '"attention_norm": 0', '"mlp_norm": 2 * x', '"mlp_norm": 0'),
    change("qkv keeps", '"qkv": 2 * x', '"qkv": 6 * x', '"up": 2 * x', '"up": 8 * x'),
    change("attention.scores keeps", "6 * x", "6 * x + 2 * weights"),
    change("attention.scores keeps", "6 * x", "2 * x"),
    change("attention.scores keeps", "6 * x", "4 * x", '"attention.mix": ', '"attention.mix": 2 * x + '),
    change("attention.softmax keeps", '"attention.softmax": 2 *', '"attention.softmax": 4 *'),
    change("attention.dropout keeps", '"attention_dropout": x', '"attention_dropout": 4 * x'),
    change("attention.dropout keeps", *_masks_times(2)),
    change("attention.dropout keeps", *_masks_times(3)),
    change("attention.mix keeps", '"attention.mix": 2 *', '"attention.mix": '),
    change("attention.mix keeps", '"attention.mix": 2 * weights', '"attention.mix": 0'),
    change("attention.mix keeps", '"attention.mix": ', '"attention.mix": 2 * x + '),
    change("gelu keeps", '"gelu": 8 * x', '"gelu": 0'),
    change("gelu keeps", "8 * x", "2 * x"),
)
