"""Wrong ways to cut layers into stages."""

import itertools

from tests.mutants import mutant


def _checked(n_layers, n_stages):
    if n_stages > n_layers:
        raise ValueError(f"{n_layers} layers, {n_stages} stages")


@mutant("no error")
def never_complains(n_layers, n_stages):
    each, more = divmod(n_layers, n_stages)
    starts = [s * each + min(s, more) for s in range(n_stages + 1)]
    return [range(a, b) for a, b in itertools.pairwise(starts)]


@mutant("sizes not named")
def complains_without_numbers(n_layers, n_stages):
    if n_stages > n_layers:
        raise ValueError("too many stages")
    return never_complains(n_layers, n_stages)


@mutant("tail lost")
def rounds_down(n_layers, n_stages):
    _checked(n_layers, n_stages)
    each = n_layers // n_stages
    return [range(s * each, (s + 1) * each) for s in range(n_stages)]


@mutant("dealt like cards")
def deals(n_layers, n_stages):
    _checked(n_layers, n_stages)
    return [range(s, n_layers, n_stages) for s in range(n_stages)]


@mutant("later stages larger")
def larger_at_the_end(n_layers, n_stages):
    _checked(n_layers, n_stages)
    each, more = divmod(n_layers, n_stages)
    starts = [s * each + max(0, s - (n_stages - more)) for s in range(n_stages + 1)]
    return [range(a, b) for a, b in itertools.pairwise(starts)]


@mutant("rest on the last stage")
def last_takes_the_rest(n_layers, n_stages):
    _checked(n_layers, n_stages)
    each = n_layers // n_stages
    return [range(s * each, n_layers if s == n_stages - 1 else (s + 1) * each) for s in range(n_stages)]


@mutant("rounded up")
def rounds_up(n_layers, n_stages):
    _checked(n_layers, n_stages)
    each = -(-n_layers // n_stages)
    return [range(min(s * each, n_layers), min((s + 1) * each, n_layers)) for s in range(n_stages)]


