"""Wrong sums over the rows and columns of a grid."""

import torch.distributed as dist

from tests.mutants import mutant


def _groups(n_rows, n_cols):
    rows = [dist.new_group([i * n_cols + j for j in range(n_cols)]) for i in range(n_rows)]
    cols = [dist.new_group([i * n_cols + j for i in range(n_rows)]) for j in range(n_cols)]
    return rows, cols


def _summed(x, group):
    total = x.clone()
    dist.all_reduce(total, group=group)
    return total


@mutant("not everyone makes every group")
def makes_only_its_own_groups(x, n_rows, n_cols):
    row, col = divmod(dist.get_rank(), n_cols)
    row_group = dist.new_group([row * n_cols + j for j in range(n_cols)])
    col_group = dist.new_group([i * n_cols + col for i in range(n_rows)])
    return _summed(x, row_group), _summed(x, col_group)


@mutant("another rank's group")
def takes_the_first_groups(x, n_rows, n_cols):
    rows, cols = _groups(n_rows, n_cols)
    return _summed(x, rows[0]), _summed(x, cols[0])


@mutant("rows and columns swapped")
def takes_rows_for_columns(x, n_rows, n_cols):
    row, col = divmod(dist.get_rank(), n_cols)
    rows, cols = _groups(n_rows, n_cols)
    return _summed(x, cols[col]), _summed(x, rows[row])


@mutant("second sum of the first")
def sums_the_sums(x, n_rows, n_cols):
    row, col = divmod(dist.get_rank(), n_cols)
    rows, cols = _groups(n_rows, n_cols)
    row_sum = _summed(x, rows[row])
    return row_sum, _summed(row_sum, cols[col])


@mutant("same tensor twice")
def reduces_x_in_place_twice(x, n_rows, n_cols):
    row, col = divmod(dist.get_rank(), n_cols)
    rows, cols = _groups(n_rows, n_cols)
    row_sum = col_sum = x
    dist.all_reduce(row_sum, group=rows[row])
    dist.all_reduce(col_sum, group=cols[col])
    return row_sum, col_sum


@mutant("wrong grid")
def divides_by_the_rows(x, n_rows, n_cols):
    col, row = divmod(dist.get_rank(), n_rows)
    rows = [dist.new_group([j * n_rows + i for j in range(n_cols)]) for i in range(n_rows)]
    cols = [dist.new_group([j * n_rows + i for i in range(n_rows)]) for j in range(n_cols)]
    return _summed(x, rows[row]), _summed(x, cols[col])


@mutant("whole world")
def sums_masked_tensors_over_all(x, n_rows, n_cols):
    row, col = divmod(dist.get_rank(), n_cols)
    by_row, by_col = x.new_zeros(n_rows, *x.shape), x.new_zeros(n_cols, *x.shape)
    by_row[row], by_col[col] = x, x
    return _summed(by_row, dist.group.WORLD)[row], _summed(by_col, dist.group.WORLD)[col]


@mutant("library call")
def gathers_everything(x, n_rows, n_cols):
    row, col = divmod(dist.get_rank(), n_cols)
    everything = [x.clone() for _ in range(n_rows * n_cols)]
    dist.all_gather(everything, x)
    return sum(everything[row * n_cols:(row + 1) * n_cols]), sum(everything[col::n_cols])
