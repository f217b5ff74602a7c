"""Wrong bubbles."""

from tests.mutants import mutant


@mutant("swapped")
def swaps(n_stages, n_micro, n_chunks):
    return (n_stages - 1) / (n_chunks * n_micro + n_stages - 1), (n_stages - 1) / (n_chunks * n_micro)


@mutant("one too many")
def counts_itself(n_stages, n_micro, n_chunks):
    return n_stages / (n_chunks * n_micro), n_stages / (n_chunks * n_micro + n_stages)


@mutant("chunks forgotten")
def forgets_chunks(n_stages, n_micro, n_chunks):
    return (n_stages - 1) / n_micro, (n_stages - 1) / (n_micro + n_stages - 1)


@mutant("chunks divide once")
def chunks_in_the_first_only(n_stages, n_micro, n_chunks):
    return (n_stages - 1) / (n_chunks * n_micro), (n_stages - 1) / (n_micro + n_stages - 1)


@mutant("bubble divided last")
def divides_in_the_end(n_stages, n_micro, n_chunks):
    return (n_stages - 1) / (n_chunks * n_micro), (n_stages - 1) / (n_micro + n_stages - 1) / n_chunks


@mutant("total without the bubble")
def twice_the_same(n_stages, n_micro, n_chunks):
    return ((n_stages - 1) / (n_chunks * n_micro),) * 2


@mutant("stages added")
def adds_all_stages(n_stages, n_micro, n_chunks):
    return (n_stages - 1) / (n_chunks * n_micro), (n_stages - 1) / (n_chunks * n_micro + n_stages)
