"""Wrong counts of what a layer sends."""

from tests.mutants import mutant


def _array(batch, length, dim):
    return 2 * batch * length * dim


@mutant("half")
def forward_only(batch, length, dim, n_ranks):
    return 2 * 2 * (n_ranks - 1) / n_ranks * _array(batch, length, dim)


@mutant("quarter")
def one_all_reduce(batch, length, dim, n_ranks):
    return 2 * (n_ranks - 1) / n_ranks * _array(batch, length, dim)


@mutant("twice")
def one_for_every_linear(batch, length, dim, n_ranks):
    return 8 * 2 * (n_ranks - 1) / n_ranks * _array(batch, length, dim)


@mutant("own share sent")
def without_the_share(batch, length, dim, n_ranks):
    return 4 * 2 * _array(batch, length, dim)


@mutant("array once")
def the_array(batch, length, dim, n_ranks):
    return 4 * _array(batch, length, dim)


@mutant("array divided")
def divided(batch, length, dim, n_ranks):
    return 4 * 2 * (n_ranks - 1) / n_ranks * _array(batch, length, dim) / n_ranks


@mutant("weights sent")
def squared(batch, length, dim, n_ranks):
    return 4 * 2 * (n_ranks - 1) / n_ranks * _array(batch, length, dim) * dim
