"""tools/tried.py: the run itself says what was run where, and docs/tried.md is made of nothing else."""

import sys

import pytest

from tests import bench_report
from tests.course import ROOT

sys.path.append(str(ROOT / "tools"))
import tried


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    monkeypatch.setattr(tried, "FRESH", tmp_path / "build" / "tried.csv")
    return tmp_path


def test_the_page_is_the_table_of_the_rows():
    assert tried.PAGE.read_text(encoding="utf-8") == tried.page(tried.read(tried.KEPT))


def test_the_page_of_ratios_is_the_table_of_the_kept_ones():
    assert bench_report.PAGE.read_text(encoding="utf-8") == bench_report.page(bench_report.read(bench_report.KEPT))


@pytest.mark.parametrize("says, status, outcome", [
    ("=== 7,014 warnings, 12 passed, 1 skipped in 3.10s ===", 0, "12 passed, 1 skipped"),
    ("1 failed, 2 passed in 0.40s", 1, "failed (exit status 1) 1 failed, 2 passed"),
    ("1 failed, 2 passed in 0.40s\nOnce more.\n1 passed in 0.20s", 0, "1 failed, 2 passed; then 1 passed"),
    ("an all-reduce works", 0, "works"), ("Segmentation fault", 139, "failed (exit status 139)")])
def test_a_row_says_what_came_of_the_run(says, status, outcome, capfd):
    command = [sys.executable, "-c", f"import sys; print({says!r}); sys.exit({status})"]
    assert tried.run("this", command, sys.executable) == status
    row, = tried.read(tried.FRESH)
    assert row["outcome"] == outcome and says in capfd.readouterr().out
    assert (row["python"], row["torch"]) == tuple(tried.versions(sys.executable).values()) and "?" not in row["torch"]


def test_the_last_run_of_a_kind_counts():
    for status in (1, 0):
        tried.run("this", [sys.executable, "-c", f"import sys; sys.exit({status})"], sys.executable)
    tried.run("that", [sys.executable, "-c", ""], sys.executable, system="another")
    assert [(row["what"], row["outcome"]) for row in tried.read(tried.FRESH)] == [("that", "works"), ("this", "works")]
