"""Wrong counts of a step's FLOPs."""

from tests.mutants import mutant


def _flops(layers, s, b, h, vocabulary, recompute, passes=3, core=1.0, head=1.0, rerun=1.0, head_again=0.0, core_again=1.0):
    attention = core * 4 * b * s * s * h * layers
    products = 24 * b * s * h * h * layers
    logits = head * 2 * b * s * h * vocabulary
    again = {"none": 0, "selective": core_again * attention, "full": products + attention + head_again * logits}[recompute]
    model = passes * (products + attention + logits)
    return model, model + rerun * again


@mutant("forward only")
def forward_only(layers, s, b, h, vocabulary, recompute):
    return _flops(layers, s, b, h, vocabulary, recompute, passes=1)


@mutant("multiplications only")
def half(layers, s, b, h, vocabulary, recompute):
    return tuple(one / 2 for one in _flops(layers, s, b, h, vocabulary, recompute))


@mutant("logits forgotten")
def no_head(layers, s, b, h, vocabulary, recompute):
    return _flops(layers, s, b, h, vocabulary, recompute, head=0)


@mutant("causal halving")
def seen_keys_only(layers, s, b, h, vocabulary, recompute):
    return _flops(layers, s, b, h, vocabulary, recompute, core=0.5)


@mutant("attention forgotten")
def six_per_parameter(layers, s, b, h, vocabulary, recompute):
    return _flops(layers, s, b, h, vocabulary, recompute, core=0)


@mutant("recompute forgotten")
def never_again(layers, s, b, h, vocabulary, recompute):
    return _flops(layers, s, b, h, vocabulary, recompute, rerun=0)


@mutant("recomputed twice")
def twice(layers, s, b, h, vocabulary, recompute):
    return _flops(layers, s, b, h, vocabulary, recompute, rerun=2)


@mutant("logits again")
def with_the_head(layers, s, b, h, vocabulary, recompute):
    return _flops(layers, s, b, h, vocabulary, recompute, head_again=1)


@mutant("a whole step again")
def as_in_the_paper(layers, s, b, h, vocabulary, recompute):
    return _flops(layers, s, b, h, vocabulary, recompute, core_again=3)


@mutant("model and hardware swapped")
def hardware_first(layers, s, b, h, vocabulary, recompute):
    return _flops(layers, s, b, h, vocabulary, recompute)[::-1]
