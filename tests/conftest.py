"""The order of tests: groups first, which one worker takes whole; then the long ones, so that none ends alone."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: (item.get_closest_marker("xdist_group") is None, item.get_closest_marker("long") is None))
