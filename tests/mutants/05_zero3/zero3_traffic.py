"""Wrong predictions of what a rank sends under ZeRO-3."""

from tests.mutants import mutant


def _sent(times, n_parameters, n_ranks, itemsize=2):
    return times * (n_ranks - 1) / n_ranks * itemsize * n_parameters


@mutant("gathered twice in backward")
def as_in_the_notes(n_parameters, n_ranks, n_micro, reshard_after_forward):
    return _sent(n_micro * (3 + reshard_after_forward), n_parameters, n_ranks)


@mutant("backward for free")
def gathers_in_forward_only(n_parameters, n_ranks, n_micro, reshard_after_forward):
    return _sent(n_micro * 2, n_parameters, n_ranks)


@mutant("kept for nothing")
def always_three(n_parameters, n_ranks, n_micro, reshard_after_forward):
    return _sent(n_micro * 3, n_parameters, n_ranks)


@mutant("once a step")
def accumulation_free(n_parameters, n_ranks, n_micro, reshard_after_forward):
    return _sent(2 + reshard_after_forward, n_parameters, n_ranks)


@mutant("reduced once")
def reduces_at_the_end(n_parameters, n_ranks, n_micro, reshard_after_forward):
    return _sent(n_micro * (1 + reshard_after_forward) + 1, n_parameters, n_ranks)


@mutant("float32")
def four_bytes(n_parameters, n_ranks, n_micro, reshard_after_forward):
    return _sent(n_micro * (2 + reshard_after_forward), n_parameters, n_ranks, itemsize=4)


@mutant("own share sent")
def sends_to_itself(n_parameters, n_ranks, n_micro, reshard_after_forward):
    return float(n_micro * (2 + reshard_after_forward) * 2 * n_parameters)
