"""Wrong predictions of what a rank sends."""

from tests.mutants import mutant


def _pass(n_parameters, n_ranks):
    return 2 * n_parameters * (n_ranks - 1) / n_ranks


@mutant("accumulation free")
def one_micro_batch(n_parameters, n_ranks, n_micro):
    return 2 * _pass(n_parameters, n_ranks)


@mutant("parameters every time")
def gathers_every_time(n_parameters, n_ranks, n_micro):
    return 2 * n_micro * _pass(n_parameters, n_ranks)


@mutant("parameters forgotten")
def never_gathers(n_parameters, n_ranks, n_micro):
    return n_micro * _pass(n_parameters, n_ranks)


@mutant("float32")
def four_bytes(n_parameters, n_ranks, n_micro):
    return 2 * (n_micro + 1) * _pass(n_parameters, n_ranks)


@mutant("numbers")
def counts_numbers(n_parameters, n_ranks, n_micro):
    return (n_micro + 1) * _pass(n_parameters, n_ranks) / 2


@mutant("own share sent")
def sends_to_itself(n_parameters, n_ranks, n_micro):
    return (n_micro + 1) * 2.0 * n_parameters
