"""Wrong tables of activations."""

from tests.mutants import mutant


def _table(s, b, h, a, t, sequence_parallel, recompute, whole=10, full=2, selective=0.0, core_t=None):
    if recompute == "full":
        return full * s * b * h
    linear = 34 / t if sequence_parallel else whole + (34 - whole) / t
    core = 5 * a * s / h / (core_t or t)
    return s * b * h * (linear + (selective if recompute == "selective" else 1) * core)


@mutant("all divided")
def tensor_parallelism_divides_all(*sizes):
    return _table(*sizes, whole=0)


@mutant("linear inputs divided")
def forgets_the_inputs(*sizes):
    return _table(*sizes, whole=6)


@mutant("nothing divided more")
def no_sequence_parallelism(s, b, h, a, t, sequence_parallel, recompute):
    return _table(s, b, h, a, t, False, recompute)


@mutant("core not divided")
def whole_core(*sizes):
    return _table(*sizes, core_t=1)


@mutant("full divided")
def full_in_pieces(s, b, h, a, t, sequence_parallel, recompute):
    return _table(s, b, h, a, t, sequence_parallel, recompute, full=2 / t)


@mutant("full keeps nothing")
def full_for_free(*sizes):
    return _table(*sizes, full=0)


@mutant("core kept")
def selective_keeps_all(*sizes):
    return _table(*sizes, selective=1.0)
