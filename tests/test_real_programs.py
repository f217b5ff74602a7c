"""Programs of torch's wrappers, engines and well-known trainers: simulated to the calls of the real run, or refused."""

import re

import pytest

from tests.real_programs import PROGRAMS, calls_of
from utils import RankFailed, run_ranks, simulate_ranks

ENOUGH = 40


@pytest.mark.long
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore")
def test_a_program_is_simulated_to_the_calls_that_it_makes_or_refused_in_words(name):
    program = PROGRAMS[name]
    run = run_ranks(program.fn, program.world_size)
    assert run.oversights == []
    real = calls_of(run)
    assert any(real), "a program that calls nobody proves nothing"
    if not program.refused:
        assert calls_of(simulate_ranks(program.fn, program.world_size)) == real
        return
    with pytest.raises(RankFailed, match=re.escape(program.refused)) as caught:
        simulate_ranks(program.fn, program.world_size)
    assert "real_programs.py, line" in str(caught.value) and "/torch/" not in str(caught.value)


def test_most_of_them_are_simulated():
    assert sum(not program.refused for program in PROGRAMS.values()) >= ENOUGH
