"""The table of all strategies says what the units' formulas say, and what is printed."""

import pytest

from utils.costs.formulas import bytes_sent_per_rank
from utils.costs.strategies import STRATEGIES, evaluated, formulas, in_letters, value_of
from utils.costs.tables import read_table

GPT_3 = {"layers": 96, "hidden": 12288, "heads": 96, "sequence": 2048}
BY_NAME = {one.name: one for one in STRATEGIES}


def row(name: str, n: int, **sizes) -> dict:
    return next(one for one in evaluated(GPT_3, n, **sizes) if one["strategy"] == name)


@pytest.mark.parametrize("printed", read_table("zero_memory_7.5B"), ids=lambda printed: f"dp {printed['Nd']}")
def test_zero_is_what_is_printed(printed):
    for name, column in (("ZeRO-1", "Pos_GB"), ("ZeRO-2", "Posg_GB"), ("ZeRO-3", "Posgp_GB")):
        held = value_of(BY_NAME[name].held, {"P": 7.5, "n": printed["Nd"]})
        digits = len(str(printed[column]).partition(".")[2])
        assert abs(held - printed[column]) <= 10.0 ** -digits


def test_traffic_is_that_of_rings():
    weights, activation = 2 * 12 * 96 * 12288**2, 2 * 2048 * 12288
    passed = bytes_sent_per_rank("all_gather", weights, 8)
    for name, passes in (("data parallel", 2), ("ZeRO-1", 2), ("ZeRO-2", 6), ("ZeRO-3", 15)):
        assert row(name, 8, n_micro=5)["sent in a step"] == pytest.approx(passes * passed / 1e9)
    for name, passes in (("tensor parallel", 8), ("… with sequence parallel", 10)):
        expected = passes * 96 * 5 * bytes_sent_per_rank("all_gather", activation, 8) / 1e9
        assert row(name, 8, n_micro=5)["sent in a step"] == pytest.approx(expected)


def test_on_one_device_every_strategy_that_divides_holds_all():
    whole = row("data parallel", 1)
    for name in ("ZeRO-1", "ZeRO-2", "ZeRO-3", "tensor parallel", "… with sequence parallel", "pipeline, 1F1B"):
        assert row(name, 1)["weights and state"] == pytest.approx(whole["weights and state"])
        assert row(name, 1)["activations"] == pytest.approx(whole["activations"])


def test_long_attention_sends_what_unit_08_found():
    whole = 2 * 2048 * 12288 / 1e9 * 96
    assert row("ring attention", 4, n_micro=1)["sent in a step"] == pytest.approx(2 * (3 * 4 - 2) / 4 * whole)
    assert row("Ulysses", 4, n_micro=1)["sent in a step"] == pytest.approx(8 * 3 / 16 * whole)


def test_formulas_read_like_those_in_papers():
    assert in_letters("4*P + 12*P/n") == "4P + 12P/n"
    assert in_letters("2*(n - 1)/n*2*P") == "2(n − 1)/n·2P"
    assert all(text and "*" not in text for one in formulas() for text in one.values())


@pytest.mark.parametrize("n", [0, -1, True, "8"])
def test_impossible_sizes_are_refused(n):
    with pytest.raises(ValueError, match="n must be a positive number"):
        evaluated(GPT_3, n)


def test_unknown_letters_are_refused():
    with pytest.raises(ValueError, match="no formula has q"):
        evaluated(GPT_3, 8, q=1)
