"""Wrong sums over the rows and columns of a grid."""

import torch.distributed as dist

from grader.exercises.references import change, mistake

CHANGES = (
    change("input changed", "row_sum, col_sum = x.clone(), x.clone()", "row_sum, col_sum = x, x.clone()"),
    change("not everyone makes every group", ") for i in range(n_rows)]", ") for i in [row]]",
           ") for j in range(n_cols)]", ") for j in [col]]", "_groups[row]", "_groups[0]", "_groups[col]", "_groups[0]"),
    change("another rank's group", "_groups[row]", "_groups[0]", "_groups[col]", "_groups[0]"),
    change("rows and columns swapped", "return row_sum, col_sum", "return col_sum, row_sum"),
    change("second sum of the first", "row_sum, col_sum = x.clone(), x.clone()", "row_sum = x.clone()",
           "dist.all_reduce(col_sum", "col_sum = row_sum.clone()\n    dist.all_reduce(col_sum"),
    change("second sum of the first", "row_sum, col_sum = x.clone(), x.clone()",
           "col_sum = x.clone()\n    dist.all_reduce(col_sum, group=col_groups[col])\n    row_sum = col_sum.clone()",
           "    dist.all_reduce(col_sum, group=col_groups[col])\n    return", "    return"),
    change("second sum of the first", "x.clone(), x.clone()", "x, x"),
    change("wrong grid", "row, col = divmod(dist.get_rank(), n_cols)", "col, row = divmod(dist.get_rank(), n_rows)",
           "i * n_cols + j", "j * n_rows + i"),
    change("square grids only", "divmod(dist.get_rank(), n_cols)", "divmod(dist.get_rank(), n_rows)"),
    change("mean for sum", "return row_sum, col_sum", "return row_sum / n_cols, col_sum / n_rows"),
    change("missing wait", "group=row_groups[row])", "group=row_groups[row], async_op=True)"),
)


@mistake("whole world")
def sums_masked_tensors_over_all(x, n_rows, n_cols):
    row, col = divmod(dist.get_rank(), n_cols)
    by_row, by_col = x.new_zeros(n_rows, *x.shape), x.new_zeros(n_cols, *x.shape)
    by_row[row], by_col[col] = x, x
    dist.all_reduce(by_row)
    dist.all_reduce(by_col)
    return by_row[row], by_col[col]


@mistake("library call")
def gathers_everything(x, n_rows, n_cols):
    row, col = divmod(dist.get_rank(), n_cols)
    everything = [x.clone() for _ in range(n_rows * n_cols)]
    dist.all_gather(everything, x)
    return sum(everything[row * n_cols:(row + 1) * n_cols]), sum(everything[col::n_cols])
