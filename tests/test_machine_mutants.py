"""Mutants made by rules: a fixed sample is rejected, and what is noted as equivalent is a mutant that is made."""

import pytest

from grader.exercises import EXERCISES, UNITS, order_of
from grader.exercises.references import with_source
from tests.machine_mutants import equivalent, mutants, sample, sites
from tests.many import earns_everything

ONE_IN = 24
PAIRS = [(unit, exercise) for unit in UNITS for exercise in order_of(unit)]


def passes(unit: str, exercise: str, source: str, warm) -> bool:
    try:
        fn = with_source(unit, exercise, source)
    except Exception:  # a cell that fails when it is run has no function to check
        return False
    return earns_everything(EXERCISES[exercise], fn, warm(EXERCISES[exercise]))


@pytest.mark.long
@pytest.mark.parametrize("unit, exercise", PAIRS)
def test_of_the_sample_none_survives_and_what_is_noted_is_made(unit, exercise, warm):
    survived = [name for name, source in sample(unit, exercise, ONE_IN) if passes(unit, exercise, source, warm)]
    assert survived == []
    noted = equivalent(unit, exercise)
    assert noted.keys() <= {name for name, _ in mutants(unit, exercise)}
    assert all(reason.endswith(".") for reason in noted.values())


def test_rules_find_their_places():
    source = "def f(x, n, group):\n    work = dist.isend(x.clone(), group=group)\n    work.wait()\n    return x[n - 1] / n\n"
    changes = {source[site.start:site.end]: site.new for site in sites(source)}
    assert changes["x.clone()"] == "x" and changes["work.wait()"] == "work" and changes["n - 1"] == "n + 1"
    rules = {site.rule for site in sites(source)}
    assert rules >= {"group dropped", "statement dropped", "operand dropped", "twin", "one less"}


def test_an_operator_is_swapped_where_it_stands():
    source = "def f(a, b, n):\n    if 0 <= (a - b) % n < b:\n        a += b\n    b[0] = torch.float64\n"
    changes = [(source[site.start:site.end], site.new) for site in sites(source)]
    assert {("(a - b) % n", "(a - b) // n"), ("a - b", "a + b"), ("a += b", "a = b"), ("b[0] = torch.float64", "pass"),
            ("torch.float64", "torch.float32"), ("0 <= (a - b) % n < b", "0 < (a - b) % n < b"),
            ("0 <= (a - b) % n < b", "0 <= (a - b) % n <= b")} <= set(changes)
