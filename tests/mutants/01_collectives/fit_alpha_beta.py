"""Wrong fits of α and β."""

import statistics

import torch

from tests.mutants import mutant


@mutant("alpha and beta swapped")
def returns_the_slope_first(sizes_bytes, times_s, n_ranks):
    slope, intercept = statistics.linear_regression(sizes_bytes, times_s)
    steps = 2 * (n_ranks - 1)
    return slope * n_ranks / steps, intercept / steps


@mutant("slope and intercept swapped")
def takes_the_slope_for_alpha(sizes_bytes, times_s, n_ranks):
    first, second = statistics.linear_regression(sizes_bytes, times_s)
    steps = 2 * (n_ranks - 1)
    return first / steps, second * n_ranks / steps


@mutant("line not turned into steps")
def returns_the_line_itself(sizes_bytes, times_s, n_ranks):
    slope, intercept = statistics.linear_regression(sizes_bytes, times_s)
    return intercept, slope


@mutant("through the origin")
def fits_without_an_intercept(sizes_bytes, times_s, n_ranks):
    slope, _ = statistics.linear_regression(sizes_bytes, times_s, proportional=True)
    return 0.0, slope * n_ranks / (2 * (n_ranks - 1))


@mutant("n steps")
def counts_n_steps(sizes_bytes, times_s, n_ranks):
    slope, intercept = statistics.linear_regression(sizes_bytes, times_s)
    return intercept / (2 * n_ranks), slope * n_ranks / (2 * n_ranks)


@mutant("one phase")
def counts_one_phase(sizes_bytes, times_s, n_ranks):
    slope, intercept = statistics.linear_regression(sizes_bytes, times_s)
    return intercept / (n_ranks - 1), slope * n_ranks / (n_ranks - 1)


@mutant("bytes of a step")
def forgets_the_chunk(sizes_bytes, times_s, n_ranks):
    slope, intercept = statistics.linear_regression(sizes_bytes, times_s)
    return intercept / (2 * (n_ranks - 1)), slope / (2 * (n_ranks - 1))


@mutant("two points only")
def joins_the_ends(sizes_bytes, times_s, n_ranks):
    slope = (times_s[-1] - times_s[0]) / (sizes_bytes[-1] - sizes_bytes[0])
    intercept = times_s[0] - slope * sizes_bytes[0]
    return intercept / (2 * (n_ranks - 1)), slope * n_ranks / (2 * (n_ranks - 1))


@mutant("single precision")
def fits_in_float32(sizes_bytes, times_s, n_ranks):
    columns = torch.tensor([[1.0, size] for size in sizes_bytes])
    intercept, slope = torch.linalg.lstsq(columns, torch.tensor(times_s).unsqueeze(1)).solution.squeeze(1).tolist()
    return intercept / (2 * (n_ranks - 1)), slope * n_ranks / (2 * (n_ranks - 1))
