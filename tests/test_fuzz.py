"""Random programs: the bookkeeping of runs, the simulator and real ranks agree on who stands still. See tests.fuzz."""

import pytest

from tests.fuzz import check


@pytest.mark.parametrize("which, programs", [("bookkeeping", 600), ("player", 400), ("real", 8)])
def test_witnesses_agree_on_who_stands_still(which, programs):
    ends = {check(which, seed) for seed in range(programs)}
    assert {"ends", "stands"} <= ends


@pytest.mark.long
def test_many_real_programs_are_told_what_they_are():
    for seed in range(1000, 1040):
        check("real", seed)
