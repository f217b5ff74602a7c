"""Wrong predictions of what a rank holds."""

from tests.mutants import mutant


@mutant("parameters forgotten")
def as_in_the_notes(n_parameters, n_ranks):
    return 14 * n_parameters / n_ranks


@mutant("gradients whole")
def zero_1(n_parameters, n_ranks):
    return (4 + 12 / n_ranks) * n_parameters


@mutant("nothing divided")
def data_parallel(n_parameters, n_ranks):
    return 16.0 * n_parameters


@mutant("state whole")
def gradients_only(n_parameters, n_ranks):
    return (14 + 2 / n_ranks) * n_parameters


@mutant("whole bytes")
def rounds(n_parameters, n_ranks):
    return int((2 + 14 / n_ranks) * n_parameters)
