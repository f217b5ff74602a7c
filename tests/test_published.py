"""The students' formulas against published tables."""

import csv

import pytest

from tests.notebooks import functions_of
from utils.costs.tables import DATA, read_table

PARAMETERS = 7_500_000_000
FORMULAS = [("Pos_GB", 1), ("Posg_GB", 2), ("Posgp_GB", 3)]


@pytest.mark.parametrize("column, stage", FORMULAS)
def test_zero_memory_to_one_unit_in_the_last_printed_digit(column, stage):
    formula = functions_of("solutions", "05_zero3")["zero_bytes"]
    with open(DATA / "zero_memory_7.5B.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6
    for row in rows:
        last_digit = 10.0 ** -len(row[column].partition(".")[2])
        assert abs(formula(PARAMETERS, int(row["Nd"]), stage) / 1e9 - float(row[column])) <= last_digit * 1.000001, row


A100_PEAK, SEQUENCE, VOCABULARY = 312e12, 2048, 51200


@pytest.mark.parametrize("model", ["22B", "175B"])
def test_mfu_and_hfu_of_selective_recomputation_within_0_3_points(model):
    """2205.05198, tables 3 and 5. Its HFU counts the attention core's rerun as forward and backward: three times."""
    step_flops = functions_of("solutions", "08_sequence_parallel")["step_flops"]
    row = next(row for row in read_table("recompute_tables_22B_175B") if row["model"] == model)
    sizes = row["layers"], SEQUENCE, row["gbs"], row["hidden"], VOCABULARY
    needed, done = step_flops(*sizes, "selective")
    percent = 100 / (row["iter_present_s"] * row["gpus"] * A100_PEAK)
    assert abs(needed * percent - row["mfu_pct"]) < 0.3
    assert abs((needed + 3 * (done - needed)) * percent - row["hfu_pct"]) < 0.3
    layers, s, b, h, v = sizes
    assert needed == pytest.approx(72 * b * layers * s * h * h * (1 + s / (6 * h) + v / (12 * h * layers)), rel=1e-12)
    full = step_flops(*sizes, "full")[1]  # 2104.04473, equation 3
    assert full == pytest.approx(96 * b * layers * s * h * h * (1 + s / (6 * h) + v / (16 * layers * h)), rel=1e-12)
