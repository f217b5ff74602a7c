"""Wrong ways to cut a batch into micro-batches."""

from tests.mutants import mutant


def _checked(x_BD, n_micro):
    if len(x_BD) % n_micro:
        raise ValueError(f"{len(x_BD)} rows, {n_micro} micro-batches")


@mutant("no error")
def chunks(x_BD, n_micro):
    return list(x_BD.chunk(n_micro))


@mutant("sizes not named")
def complains_without_numbers(x_BD, n_micro):
    if len(x_BD) % n_micro:
        raise ValueError("does not divide")
    return list(x_BD.chunk(n_micro))


@mutant("number for size")
def splits_by_the_number(x_BD, n_micro):
    _checked(x_BD, n_micro)
    return list(x_BD.split(n_micro))


@mutant("dealt like cards")
def deals(x_BD, n_micro):
    _checked(x_BD, n_micro)
    return [x_BD[k::n_micro] for k in range(n_micro)]


@mutant("columns cut")
def cuts_columns(x_BD, n_micro):
    _checked(x_BD, n_micro)
    return list(x_BD.chunk(n_micro, dim=-1))


@mutant("whole batch each time")
def repeats(x_BD, n_micro):
    _checked(x_BD, n_micro)
    return [x_BD for _ in range(n_micro)]


@mutant("rows at a time")
def single_rows(x_BD, n_micro):
    _checked(x_BD, n_micro)
    return [x_BD[k:k + 1] for k in range(n_micro)]
