"""Wrong counts of what a block keeps."""

from tests.mutants import mutant


def _right(s, b, h, a):
    x, weights = s * b * h, a * s * s * b
    return {"attention_norm": 2 * x, "qkv": 2 * x, "attention.scores": 6 * x, "attention.softmax": 2 * weights,
            "attention.dropout": weights, "attention.mix": 2 * weights, "out": 2 * x, "attention_dropout": x,
            "mlp_norm": 2 * x, "up": 2 * x, "gelu": 8 * x, "down": 8 * x, "mlp_dropout": x}


@mutant("wide mask")
def masks_of_two_bytes(s, b, h, a):
    return {part: size * (2 if part.endswith("dropout") else 1) for part, size in _right(s, b, h, a).items()}


@mutant("numbers for bytes")
def counts_numbers(s, b, h, a):
    return {part: size / (1 if part.endswith("dropout") else 2) for part, size in _right(s, b, h, a).items()}


@mutant("float32")
def four_bytes(s, b, h, a):
    return {part: size * (1 if part.endswith("dropout") else 2) for part, size in _right(s, b, h, a).items()}


@mutant("dropout keeps its input")
def mask_and_input(s, b, h, a):
    return {part: size * (3 if part.endswith("dropout") else 1) for part, size in _right(s, b, h, a).items()}


@mutant("width forgotten")
def narrow_mlp(s, b, h, a):
    return _right(s, b, h, a) | {"gelu": 2 * s * b * h, "down": 2 * s * b * h}


@mutant("dropped weights forgotten")
def one_copy_of_the_weights(s, b, h, a):
    return _right(s, b, h, a) | {"attention.mix": 0}


@mutant("one of three")
def keeps_q_only(s, b, h, a):
    return _right(s, b, h, a) | {"attention.scores": 2 * s * b * h}


@mutant("norms forgotten")
def norms_for_free(s, b, h, a):
    return _right(s, b, h, a) | {"attention_norm": 0, "mlp_norm": 0}


@mutant("one head")
def no_heads(s, b, h, a):
    weights = s * s * b
    core = {"attention.softmax": 2 * weights, "attention.dropout": weights, "attention.mix": 2 * weights}
    return _right(s, b, h, a) | core


@mutant("another part")
def gelu_for_free(s, b, h, a):
    return _right(s, b, h, a) | {"gelu": 0}
