"""The students' formulas against published tables."""

import csv

import pytest

from grader.exercises.references import functions_of
from utils.costs.tables import DATA

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
