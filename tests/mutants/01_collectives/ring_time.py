"""Wrong predictions of a ring's time."""

import math

from tests.mutants import mutant


def _phases(op):
    return 2 if op == "all_reduce" else 1


@mutant("n steps")
def counts_n_steps(op, total_bytes, n_ranks, alpha_s, beta_s_per_byte):
    return _phases(op) * n_ranks * (alpha_s + total_bytes / n_ranks * beta_s_per_byte)


@mutant("whole array a step")
def sends_everything_each_step(op, total_bytes, n_ranks, alpha_s, beta_s_per_byte):
    return _phases(op) * (n_ranks - 1) * (alpha_s + total_bytes * beta_s_per_byte)


@mutant("one phase")
def one_phase_for_all(op, total_bytes, n_ranks, alpha_s, beta_s_per_byte):
    return (n_ranks - 1) * (alpha_s + total_bytes / n_ranks * beta_s_per_byte)


@mutant("always two phases")
def two_phases_for_all(op, total_bytes, n_ranks, alpha_s, beta_s_per_byte):
    return 2 * (n_ranks - 1) * (alpha_s + total_bytes / n_ranks * beta_s_per_byte)


@mutant("latency once a phase")
def one_latency_a_phase(op, total_bytes, n_ranks, alpha_s, beta_s_per_byte):
    return _phases(op) * (alpha_s + (n_ranks - 1) / n_ranks * total_bytes * beta_s_per_byte)


@mutant("latency once")
def one_latency_in_all(op, total_bytes, n_ranks, alpha_s, beta_s_per_byte):
    return alpha_s + _phases(op) * (n_ranks - 1) / n_ranks * total_bytes * beta_s_per_byte


@mutant("alpha and beta swapped")
def swaps_alpha_and_beta(op, total_bytes, n_ranks, alpha_s, beta_s_per_byte):
    return _phases(op) * (n_ranks - 1) * (beta_s_per_byte + total_bytes / n_ranks * alpha_s)


@mutant("steps of a tree")
def counts_tree_rounds(op, total_bytes, n_ranks, alpha_s, beta_s_per_byte):
    bytes_sent = (n_ranks - 1) / n_ranks * total_bytes
    return _phases(op) * (math.ceil(math.log2(n_ranks)) * alpha_s + bytes_sent * beta_s_per_byte)


@mutant("divided by beta")
def divides_by_beta(op, total_bytes, n_ranks, alpha_s, beta_s_per_byte):
    return _phases(op) * (n_ranks - 1) * (alpha_s + total_bytes / n_ranks / beta_s_per_byte)
