"""Wrong bandwidths."""

from tests.mutants import mutant


def _factor(op, n_ranks):
    return (2 if op == "all_reduce" else 1) * (n_ranks - 1) / n_ranks


@mutant("bits for bytes")
def counts_bits(op, total_bytes, n_ranks, time_s):
    algorithm = total_bytes * 8 / time_s / 1e9
    return algorithm, algorithm * _factor(op, n_ranks)


@mutant("GiB for GB")
def divides_by_two_to_the_thirty(op, total_bytes, n_ranks, time_s):
    algorithm = total_bytes / time_s / 2**30
    return algorithm, algorithm * _factor(op, n_ranks)


@mutant("bus factor forgotten")
def same_number_twice(op, total_bytes, n_ranks, time_s):
    algorithm = total_bytes / time_s / 1e9
    return algorithm, algorithm


@mutant("factor of another collective")
def all_reduce_factor_for_all(op, total_bytes, n_ranks, time_s):
    algorithm = total_bytes / time_s / 1e9
    return algorithm, algorithm * 2 * (n_ranks - 1) / n_ranks


@mutant("upside down")
def divides_by_the_factor(op, total_bytes, n_ranks, time_s):
    algorithm = total_bytes / time_s / 1e9
    return algorithm, algorithm / _factor(op, n_ranks)


@mutant("swapped")
def bus_bandwidth_first(op, total_bytes, n_ranks, time_s):
    algorithm = total_bytes / time_s / 1e9
    return algorithm * _factor(op, n_ranks), algorithm


@mutant("n for n−1")
def factor_of_two_only(op, total_bytes, n_ranks, time_s):
    algorithm = total_bytes / time_s / 1e9
    return algorithm, algorithm * (2 if op == "all_reduce" else 1)


@mutant("bytes of one rank")
def divides_by_the_ranks(op, total_bytes, n_ranks, time_s):
    algorithm = total_bytes / n_ranks / time_s / 1e9
    return algorithm, algorithm * _factor(op, n_ranks)
