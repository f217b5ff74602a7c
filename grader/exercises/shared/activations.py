"""What a transformer layer keeps for its backward pass on each of t ranks, by the paper's table."""


def kept(s: int, b: int, h: int, a: int, t: int, sequence_parallel: bool, recompute: str) -> float:
    """Korthikanti et al., table 2, but for full recomputation: a layer's input is kept as the rank has it, whole or a piece.

    The table prints 2sbh there: its text leaves the input whole, since to cut it would cost one more all-gather a layer.
    Between sequence-parallel blocks it is a piece already, and `Recompute` around one keeps just that.
    """
    if recompute == "full":
        return 2 * s * b * h / (t if sequence_parallel else 1)
    whole = 0 if sequence_parallel else 10
    core = 0 if recompute == "selective" else 5 * a * s / h / t
    return s * b * h * (whole + (34 - whole) / t + core)
