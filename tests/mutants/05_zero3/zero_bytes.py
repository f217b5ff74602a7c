"""Wrong predictions of what a rank holds at each stage."""

from tests.mutants import mutant


def _held(n_parameters, n_ranks, stage, parameters=3, gradients=2, state=1, k=12):
    parts = ((parameters, 2), (gradients, 2), (state, k))
    return sum(size / (n_ranks if stage >= first else 1) for first, size in parts) * n_parameters


@mutant("stages shifted")
def from_zero(n_parameters, n_ranks, stage):
    return _held(n_parameters, n_ranks, stage + 1)


@mutant("parameters forgotten")
def as_in_the_notes(n_parameters, n_ranks, stage):
    return 14 * n_parameters / n_ranks if stage == 2 else _held(n_parameters, n_ranks, stage)


@mutant("gradients whole")
def gradients_late(n_parameters, n_ranks, stage):
    return _held(n_parameters, n_ranks, stage, gradients=3)


@mutant("parameters whole")
def parameters_never(n_parameters, n_ranks, stage):
    return _held(n_parameters, n_ranks, stage, parameters=4)


@mutant("master copy forgotten")
def eight(n_parameters, n_ranks, stage):
    return _held(n_parameters, n_ranks, stage, k=8)


@mutant("whole bytes")
def rounds(n_parameters, n_ranks, stage):
    return sum(size // (n_ranks if stage >= first else 1) for first, size in ((3, 2), (2, 2), (1, 12))) * n_parameters
