"""Wrong times of a step."""

from tests.mutants import mutant


def _ring(gradient_bytes, n_ranks, alpha_s, beta_s_per_byte, phases=2):
    return phases * (n_ranks - 1) * (alpha_s + gradient_bytes / n_ranks * beta_s_per_byte)


def _step(compute_s, reduce_s, overlapped, backward=2 / 3):
    if not overlapped:
        return compute_s + reduce_s
    return compute_s * (1 - backward) + max(compute_s * backward, reduce_s)


@mutant("compute not divided")
def whole_batch(compute_s, gradient_bytes, n_ranks, alpha_s, beta_s_per_byte, overlapped):
    return _step(compute_s, _ring(gradient_bytes, n_ranks, alpha_s, beta_s_per_byte), overlapped)


@mutant("one phase")
def half_an_all_reduce(compute_s, gradient_bytes, n_ranks, alpha_s, beta_s_per_byte, overlapped):
    return _step(compute_s / n_ranks, _ring(gradient_bytes, n_ranks, alpha_s, beta_s_per_byte, 1), overlapped)


@mutant("gradients divided")
def sharded_gradients(compute_s, gradient_bytes, n_ranks, alpha_s, beta_s_per_byte, overlapped):
    reduce_s = _ring(gradient_bytes / n_ranks, n_ranks, alpha_s, beta_s_per_byte)
    return _step(compute_s / n_ranks, reduce_s, overlapped)


@mutant("not overlapped")
def never_overlaps(compute_s, gradient_bytes, n_ranks, alpha_s, beta_s_per_byte, overlapped):
    return compute_s / n_ranks + _ring(gradient_bytes, n_ranks, alpha_s, beta_s_per_byte)


@mutant("always overlapped")
def always_overlaps(compute_s, gradient_bytes, n_ranks, alpha_s, beta_s_per_byte, overlapped):
    return _step(compute_s / n_ranks, _ring(gradient_bytes, n_ranks, alpha_s, beta_s_per_byte), True)


@mutant("hidden by the forward")
def hides_behind_all(compute_s, gradient_bytes, n_ranks, alpha_s, beta_s_per_byte, overlapped):
    reduce_s = _ring(gradient_bytes, n_ranks, alpha_s, beta_s_per_byte)
    return _step(compute_s / n_ranks, reduce_s, overlapped, backward=1.0)


@mutant("hidden for free")
def hides_anything(compute_s, gradient_bytes, n_ranks, alpha_s, beta_s_per_byte, overlapped):
    reduce_s = _ring(gradient_bytes, n_ranks, alpha_s, beta_s_per_byte)
    return compute_s / n_ranks + (0 if overlapped else reduce_s)


@mutant("half and half")
def equal_passes(compute_s, gradient_bytes, n_ranks, alpha_s, beta_s_per_byte, overlapped):
    reduce_s = _ring(gradient_bytes, n_ranks, alpha_s, beta_s_per_byte)
    return _step(compute_s / n_ranks, reduce_s, overlapped, backward=1 / 2)
