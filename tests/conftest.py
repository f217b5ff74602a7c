"""Short tests come first; of the long ones, with TEST_MINUTES set, those that are not begun in that time are left out."""

from __future__ import annotations

import os
import time

import pytest

BEGAN_S = time.monotonic()
MINUTES = float(os.environ.get("TEST_MINUTES", "inf"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Groups stay as they are: xdist hands them out first, each whole. Of the others the large corpora are the last."""
    late = [item for item in items if _has(item, "long") and not _has(item, "xdist_group")]
    chosen = set(late)
    items[:] = [item for item in items if item not in chosen] + late[::-1]


def pytest_runtest_setup(item: pytest.Item) -> None:
    if _has(item, "long") and time.monotonic() - BEGAN_S > 60 * MINUTES:
        pytest.skip(f"long, and not begun within {MINUTES:g} minutes")


def _has(item: pytest.Item, mark: str) -> bool:
    return item.get_closest_marker(mark) is not None
