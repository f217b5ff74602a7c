"""Wrong predictions of what a rank holds."""

from tests.mutants import mutant


@mutant("nothing divided")
def data_parallel(n_parameters, n_ranks):
    return 16.0 * n_parameters


@mutant("all divided")
def zero_3(n_parameters, n_ranks):
    return 16 * n_parameters / n_ranks


@mutant("gradients divided")
def zero_2(n_parameters, n_ranks):
    return (2 + 14 / n_ranks) * n_parameters


@mutant("master copy whole")
def keeps_the_master_copy(n_parameters, n_ranks):
    return (8 + 8 / n_ranks) * n_parameters


@mutant("whole bytes")
def rounds(n_parameters, n_ranks):
    return int((4 + 12 / n_ranks) * n_parameters)
